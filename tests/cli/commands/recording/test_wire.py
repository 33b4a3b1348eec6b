"""The recording commands on what came over the wire."""

import json

import pytest

from offbook.recording.format.keys import MAX_KEY_CHARS

FRAMES = [
    [12.1, 'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}\n\n'],
    [13.9, 'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'],
    [14.0, "data: [DONE]\n\n"],
]
CHAT = {
    "content": "Hello",
    "model": "demo",
    "finish_reason": "stop",
    "wire": {"protocol": "openai_chat", "headers": {"content-type": "text/event-stream"}, "frames": FRAMES},
}
MODELS = {
    "request": {"method": "GET", "path": "/v1/models", "body": None},
    "request_hash": "a" * 64,
    "wire": {"protocol": "http", "headers": {"content-type": "application/json"}, "body": '{"data":[{"id":"demo"}]}'},
}
LIVE_KEY = "sk-" + "proj-" + "A1b2C3d4" * 4


@pytest.fixture
def written(tmp_path):
    """Write a recording of these entries: gives its path."""

    def written(name="run.json", **entries):
        path = tmp_path / name
        path.write_text(json.dumps({"_version": 2} | entries))
        return path

    return written


def wired(**changes):
    """The chat with another wire."""
    return CHAT | {"wire": CHAT["wire"] | changes}


class TestShow:
    def test_the_table_marks_how_each_was_recorded(self, run, written):
        failed = {"fault": {"type": "http_error", "status_code": 429}}
        failed["wire"] = {"protocol": "anthropic", "status": 429, "body": "{}"}
        _, out, _ = run(
            "recording", "show", written(greet=CHAT, limited=failed, plain={"content": "Hi"}, **{"a" * 64: MODELS})
        )
        header, *lines = out.splitlines()
        assert "wire" in header
        rows = {line.split()[0]: line for line in lines}
        assert "openai_chat · 3 frames" in rows["greet"]
        assert "anthropic · 429" in rows["limited"]
        assert "GET /v1/models 200" in rows["a" * 12 + "…"]
        assert "stop" not in rows["a" * 12 + "…"]

    def test_the_table_has_no_such_column_if_nothing_came_over_the_wire(self, run, record):
        assert "wire" not in run("recording", "show", record("run.json", greet="Hello!"))[1].splitlines()[0]

    def test_a_stream_is_shown_frame_by_frame(self, run, written):
        _, out, _ = run("recording", "show", written(greet=CHAT), "--key", "greet")
        lines = out.splitlines()
        assert "over the wire: openai_chat, status 200" in lines
        assert "  content-type: text/event-stream" in lines
        assert any(line.startswith('       12.1 ms  data: {"id":"c1","choices"') for line in lines)
        assert "       14.0 ms  data: [DONE]" in lines

    def test_the_lines_of_an_event_stand_below_each_other(self, run, written):
        frames = [[1.0, 'event: ping\ndata: {"type": "ping"}\n\n'], [2.0, "\n"]]
        _, out, _ = run("recording", "show", written(greet=wired(frames=frames)), "--key", "greet")
        assert '        1.0 ms  event: ping\n                data: {"type": "ping"}\n' in out
        assert "        2.0 ms  (nothing)\n" in out

    def test_a_long_line_is_cut_to_the_width(self, run, written):
        frames = [[1.0, "data: " + "x" * 500], [2.0, "data: y"]]
        _, out, _ = run("recording", "show", written(greet=wired(frames=frames)), "--key", "greet")
        assert max(map(len, out.splitlines())) == 200
        assert out.count("x…\n") == 1

    def test_a_body_is_laid_out_to_be_read(self, run, written):
        _, out, _ = run("recording", "show", written(models=MODELS), "--key", "models")
        assert "GET /v1/models\n" in out
        assert '  {\n    "data": [\n      {\n        "id": "demo"\n' in out
        assert "→" not in out

    def test_what_was_sent_in_plain_http_is_shown(self, run, written):
        sent = MODELS | {"request": {"method": "POST", "path": "/v1/x?y=1", "body": {"input": "Hi"}}}
        assert 'POST /v1/x?y=1: {"input":"Hi"}\n' in run("recording", "show", written(x=sent), "--key", "x")[1]

    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            ({"base64": "//79"}, "  <3 bytes>"),
            ({"event": {":event-type": "metadata"}, "data": "\x1b{}"}, "  metadata "),
            ("no JSON", "  no JSON"),
            ("[" * 9999, "  [[["),
            ("{", "  {"),
            ("", "(nothing)"),
        ],
    )
    def test_what_is_no_json_is_shown_as_it_is(self, run, written, body, shown):
        wire = {"protocol": "http", "body": body}
        code, out, _ = run("recording", "show", written(x=MODELS | {"wire": wire}), "--key", "x")
        assert code == 0
        assert shown in out

    def test_nothing_in_a_recording_controls_the_terminal(self, run, written):
        evil = "\x1b]0;owned\x07\x1b[2J\r\x9b1m"
        entry = {
            "content": f"{evil} said",
            "model": f"{evil} model",
            "reasoning": evil,
            "tool_calls": [{"name": evil, "arguments": evil}],
            "chunks": [[0.0, evil], [1.0, {"reasoning": evil}]],
            "recorded_at": evil,
            "request": {"messages": [{"role": evil, "content": evil}]},
            "wire": {"protocol": evil, "frames": [[0.0, f"{evil}\n\n{evil}"], [1.0, f"event: {evil}"]]},
        }
        http = {
            "request": {"method": f"GET{evil}", "path": f"/{evil}\n", "body": evil},
            "wire": {"protocol": "http", "body": json.dumps({"a": evil}) + evil},
        }
        tools = {"get": [{"arguments": {"a": evil}, "result": evil}, {"error": {"type": evil, "message": evil}}]}
        path = written(a=entry, b=http, c={"fault": {"type": "malformed_response", "raw": evil}}, _tools=tools)
        for arguments in ([], ["--key", "a"], ["--key", "b"], ["--key", "c"], ["--key", "_tools.get"]):
            code, out, _ = run("recording", "show", path, *arguments)
            assert code == 0
            assert out.replace("\n", "").isprintable()
        checked = run("recording", "check", path)[1]
        assert checked.replace("\n", "").isprintable()

    def test_as_json_it_is_what_the_file_has(self, run, written):
        _, out, _ = run("recording", "show", written(greet=CHAT), "--json")
        assert json.loads(out)["wire"] == CHAT["wire"]


class TestCheck:
    def test_bytes_that_say_the_same_as_the_fields_pass(self, run, written):
        assert run("recording", "check", written(greet=CHAT, models=MODELS))[0] == 0

    def test_bytes_that_say_something_else_are_reported(self, run, written):
        path = written(greet=CHAT | {"content": "Hullo"})
        code, out, _ = run("recording", "check", path)
        assert code == 1
        assert 'the bytes differ from the fields: content; remove "wire" from the entry to serve the fields\n' in out
        assert "hint" not in out

    def test_secrets_in_plain_http_are_reported_by_its_place(self, run, written):
        path = written(**{"a" * 64: MODELS | {"wire": {"protocol": "http", "body": LIVE_KEY}}})
        code, out, _ = run("recording", "check", path)
        assert code == 1
        assert "GET /v1/models: wire.body: looks like a openai-key\n" in out
        (finding,) = json.loads(run("recording", "check", path, "--json")[1])["findings"]
        assert finding["key"] == "a" * 64
        assert finding["http"] == "GET /v1/models"
        run("recording", "redact", path)
        assert run("recording", "check", path)[0] == 0
        assert LIVE_KEY not in path.read_text()

    def test_another_shape_is_unreadable_with_its_place(self, run, written):
        code, out, _ = run("recording", "check", written(greet=wired(headers={"x": "a\r\nb"})))
        assert code == 2
        assert "key 'greet'.wire: the header 'x' has characters that are not allowed in headers" in out


class TestDiff:
    def test_a_change_of_the_bytes_is_shown(self, run, written):
        new = [[at_ms, text.replace('"stop"', '"length"')] for at_ms, text in FRAMES]
        code, out, _ = run("recording", "diff", written("a.json", a=CHAT), written("b.json", a=wired(frames=new)))
        assert code == 1
        assert "a, call 1: same answer, different bytes\n  body.choices[0].finish_reason:" in out

    def test_plain_http_is_reported_by_its_place(self, run, written):
        key = "k" * MAX_KEY_CHARS
        other = MODELS | {"wire": MODELS["wire"] | {"status": 404}}
        code, out, _ = run("recording", "diff", written("a.json", **{key: MODELS}), written("b.json", **{key: other}))
        assert code == 1
        assert out.startswith("GET /v1/models, call 1: different answer\n  status:\n  -200\n  +404\n")

    def test_other_times_and_ids_are_no_difference(self, run, written):
        new = [[at_ms * 2, text.replace("c1", "c2")] for at_ms, text in FRAMES]
        assert run("recording", "diff", written("a.json", a=CHAT), written("b.json", a=wired(frames=new)))[0] == 0


@pytest.mark.parametrize("output", ["all.json", "sqlite:///all.db"])
def test_merge_keeps_what_came_over_the_wire(run, written, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    path = written(greet=CHAT, models=MODELS)
    assert run("recording", "merge", path, path, "--output", output)[0] == 0
    shown = [json.loads(line) for line in run("recording", "show", output, "--json")[1].splitlines()]
    assert {entry["key"]: entry["wire"] for entry in shown} == {"greet": CHAT["wire"], "models": MODELS["wire"]}


class TestKeys:
    """Keys that are fingerprints."""

    @pytest.fixture
    def path(self, written):
        fields = {
            "request_hash": "b" * 64,
            "request": {"model": "gpt", "messages": [{"role": "user", "content": "Hi"}]},
        }
        return written(**{"a" * 64: MODELS, "b" * 64: {"content": "Ho"} | fields, "ab" * 32: CHAT})

    @pytest.mark.parametrize("key", ["b" * 64, "b" * 59, "b" * 12, "b" * 12 + "…", "b"])
    def test_what_the_table_shows_can_be_shown_in_full(self, run, path, key):
        code, out, _ = run("recording", "show", path, "--key", key)
        assert code == 0
        assert out.splitlines()[0].startswith("bbbbbbbbbbbb… · gpt · call 1 of 1 ")

    def test_the_heading_reports_what_an_exchange_is_about(self, run, path):
        assert "aaaaaaaaaaaa… · GET /v1/models · call 1 of 1" in run("recording", "show", path, "--key", "aaa")[1]
        assert "abababababab… · demo · call 1 of 1" in run("recording", "show", path, "--key", "aba")[1]

    def test_an_ambiguous_or_unknown_key_is_refused_with_what_can_be_typed(self, run, path):
        code, _, err = run("recording", "show", path, "--key", "a")
        assert code == 2
        assert f"write more of one: {'a' * 12}, {'ab' * 6}\n" in err
        code, _, err = run("recording", "show", path, "--key", "c")
        assert code == 2
        assert f"keys: {'a' * 12}, {'b' * 12}, {'ab' * 6}\n" in err

    def test_prune_takes_the_same(self, run, path, written):
        other = written("other.json", greet=CHAT)
        code, out, _ = run("recording", "prune", path, other, "--key", "bbbb", "--key", "greet")
        assert code == 0
        assert [line.partition(": ")[2] for line in out.splitlines()] == ["removed 1, 2 left", "removed 1, 0 left"]
        code, _, err = run("recording", "prune", path, "--key", "zzz")
        assert code == 2
        assert "no key 'zzz'" in err

    def test_diff_shows_a_changed_prompt(self, run, written):
        files = []
        for name, text in (("a", "Say hello to Ada"), ("b", "Say hello to Eve")):
            request = {"model": "gpt", "messages": [{"role": "user", "content": text}]}
            files.append(written(f"{name}.json", **{name * 64: {"request_hash": name * 64, "request": request}}))
        code, out, _ = run("recording", "diff", *files)
        assert code == 1
        assert out.startswith("aaaaaaaaaaaa… → bbbbbbbbbbbb…, call 1: different request\n")
        assert "  -Say hello to Ada\n  +Say hello to Eve\n1 difference\n" in out
