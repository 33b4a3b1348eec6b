"""offbook recording import and export."""

import base64
import json
import random
import shutil
from pathlib import Path

import pytest

FIXTURES = {"fixtures": [{"match": {}, "response": {"content": "Hello"}}, {"match": {}, "response": {"image": {}}}]}


def test_a_recording_goes_out_and_comes_in_again(run, record, tmp_path):
    recorded = record("run.json", greet="Hello!")
    archive, back = tmp_path / "run.har", tmp_path / "back.json"
    code, out, err = run("recording", "export", recorded, "--format", "har", "--output", archive)
    assert code == 0
    assert out.endswith(": 1 exchange, 0 not mapped\n")
    assert err == ""
    assert run("recording", "export", recorded) == (0, archive.read_text(), "")
    code, out, _ = run("recording", "import", archive, "--output", back)
    assert code == 0
    assert out == f"{back}: 1 exchange, 0 not mapped\n"
    assert json.loads(back.read_text())["greet"]["content"] == "Hello!"


@pytest.mark.parametrize("kind", ["otel", "openinference"])
def test_a_recording_goes_out_as_spans(run, record, tmp_path, kind):
    recorded, spans = record("run.json", greet="Hello!"), tmp_path / "spans.json"
    assert run("recording", "export", recorded, "--format", kind, "--output", spans)[0] == 0
    assert run("recording", "import", spans, "--from", kind, "--output", tmp_path / "back.json")[0] == 0
    (entry,) = [value for key, value in json.loads((tmp_path / "back.json").read_text()).items() if key[0] != "_"]
    assert entry["content"] == "Hello!"


def test_what_cannot_be_mapped_is_listed_and_the_rest_is_imported(run, write, tmp_path):
    write("fixtures.json", json.dumps(FIXTURES))
    code, out, _ = run("recording", "import", "fixtures.json", "-o", "run.json")
    assert code == 1
    assert out.splitlines() == [
        "not mapped: fixture 2: not an answer of a chat: image",
        "run.json: 1 exchange, 1 not mapped",
    ]
    code, out, _ = run("recording", "import", "fixtures.json", "-o", "run.json", "--force", "--json")
    assert code == 1
    assert json.loads(out) == {
        "output": "run.json",
        "exchanges": 1,
        "enclosing_spans": 0,
        "unmapped": [{"place": "fixture 2", "reason": "not an answer of a chat: image"}],
    }


def test_nothing_is_replaced_without_force_and_nothing_is_written_without_a_call(run, write, tmp_path):
    write("fixtures.json", json.dumps(FIXTURES))
    write("run.json", '{"_version": 2}')
    code, _, err = run("recording", "import", "fixtures.json", "-o", "run.json")
    assert code == 2
    assert "it already exists" in err
    assert (tmp_path / "run.json").read_text() == '{"_version": 2}'
    code, _, err = run("recording", "export", "run.json", "-o", "fixtures.json")
    assert code == 2
    assert "it already exists" in err
    write("none.json", json.dumps({"fixtures": FIXTURES["fixtures"][1:]}))
    code, out, err = run("recording", "import", "none.json", "-o", "new.json")
    assert code == 2
    assert "there is no call that can be recorded" in err
    assert out == ""
    assert "not mapped: fixture 1" in err
    assert not (tmp_path / "new.json").exists()


def test_a_recording_without_requests_is_not_exported(run, write, tmp_path):
    write("hand.json", '{"_version": 2, "any": {"content": "Hello"}}')
    code, out, err = run("recording", "export", "hand.json", "-o", "hand.har")
    assert code == 2
    assert "not mapped: any" in out
    assert "no exchange can be exported" in err
    assert not (tmp_path / "hand.har").exists()


def test_a_kind_that_the_file_is_not_is_refused(run, write):
    write("fixtures.json", json.dumps(FIXTURES))
    code, _, err = run("recording", "import", "fixtures.json", "--from", "vcr", "-o", "run.json")
    assert code == 2
    assert "the file is not a cassette of vcrpy" in err
    assert run("recording", "import", "nowhere.har", "-o", "run.json")[0] == 2


HAR = {"log": {"version": "1.2", "entries": []}}
CASSETTE = "interactions:\n- request:\n    body: null\nversion: 1\n"
SPAN = {"name": "chat", "traceId": "0" * 32, "spanId": "0" * 16, "attributes": {"gen_ai.operation.name": "chat"}}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (json.dumps(HAR), "a HAR archive"),
        (json.dumps(FIXTURES), "fixtures of aimock"),
        (json.dumps({"interactions": [], "version": 1}), "a cassette of vcrpy"),
        (CASSETTE, "a cassette of vcrpy"),
        (f"version: 1\n{CASSETTE}", "a cassette of vcrpy"),
        (json.dumps({"resourceSpans": []}), "a file of spans"),
        (f"{json.dumps(SPAN)}\n{json.dumps(SPAN)}\n", "a file of spans"),
    ],
)
@pytest.mark.parametrize("command", [["recording", "show", "x.har"], ["exec", "--replay", "x.har", "--", "true"]])
def test_the_file_of_another_tool_is_called_by_its_name_where_a_recording_is_expected(
    run, write, content, kind, command
):
    write("x.har", content)
    code, _, err = run(*command)
    assert code == 2
    assert f"x.har: looks like {kind}, not a recording" in err
    assert "offbook recording import x.har --output run.json" in err


def test_a_recording_is_not_imported_again(run, record, tmp_path):
    recorded = record("run.json", greet="Hello!")
    code, _, err = run("recording", "import", recorded, "-o", tmp_path / "again.json")
    assert code == 2
    assert "the file is a recording already" in err
    assert f"offbook recording copy {recorded}" in err


def test_images_in_files_beside_a_recording_go_along(run, record, tmp_path):
    image = base64.b64encode(random.Random(1).randbytes(30_000)).decode()
    recorded, copied = Path(record("run.json", greet=image)), tmp_path / "copy.json"
    assert image not in recorded.read_text()
    assert run("recording", "check", recorded)[0] == 0
    assert run("recording", "copy", recorded, copied)[0] == 0
    assert run("recording", "diff", recorded, copied)[0] == 0
    assert [each.name for each in (tmp_path / "copy.json.files").iterdir()] == [
        each.name for each in (tmp_path / "run.json.files").iterdir()
    ]
    assert image[:60] in run("recording", "show", recorded, "--json")[1]
    shutil.rmtree(tmp_path / "copy.json.files")
    for command in ("show", "check"):
        code, out, err = run("recording", command, copied)
        assert (code != 0, "is missing" in out + err, "copy the folder copy.json.files" in out + err) == (True,) * 3
