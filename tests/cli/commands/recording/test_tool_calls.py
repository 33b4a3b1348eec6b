"""The recording commands, on recordings with calls of tools."""

import json
import sqlite3

import pytest

from offbook.recording.stores.locate import open_store
from offbook.session.recording_tools import record_tools
from offbook.session.replayed_tools import replay_tools

LIVE_KEY = "sk-" + "proj-" + "A1b2C3d4" * 4
OLD, NEW = "2001-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"


def get_weather(city: str) -> dict:
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"sky": "rain"}


@pytest.fixture
def write(tmp_path):
    """Write a recording by hand: `write("run.json", get=[{"result": 1}])`."""

    def write(name, entries=None, **tools):
        path = tmp_path / name
        path.write_text(json.dumps({"_version": 2, "_tools": tools} | (entries or {})))
        return path

    return write


def results(path):
    """The results of each tool."""
    tools = open_store(path).load().tools
    return {tool: [call.answer for call in calls] for tool, calls in tools.items()}


def test_show_lists_calls_of_tools_under_those_of_models(run, record):
    path = record("run.json", greet="Hello!")
    with record_tools([get_weather], path) as tools:
        tools["get_weather"](city="Oslo")
        with pytest.raises(LookupError):
            tools["get_weather"](city="Atlantis")
    code, out, _ = run("recording", "show", path)
    lines = out.splitlines()
    assert code == 0
    assert lines[1].startswith("greet")
    assert lines[2].split() == ["tool", "ends", "ms", "arguments", "result"]
    name, ends, _, *rest = lines[3].split()
    assert name == "get_weather"
    assert ends == "result"
    assert rest == ['{"city":"Oslo"}', '{"sky":"rain"}']
    assert "error: LookupError" in lines[4]
    assert "no such city" in lines[4]
    assert lines[5] == f"{path}: 1 exchange of 1 key, 2 calls of 1 tool"


def test_show_of_tools_alone_has_no_table_of_models(run, write):
    _, out, _ = run("recording", "show", write("run.json", get=[{"result": "x"}, {"result": "y " * 100}]))
    assert out.splitlines()[0].split() == ["tool", "ends", "ms", "arguments", "result"]
    assert "(any)" in out
    assert "…" in out


def test_show_as_json_gives_an_object_a_line(run, write):
    path = write("run.json", {"greet": {"content": "Hi"}}, get=[{"arguments": {"a": 1}, "result": None}])
    _, out, _ = run("recording", "show", path, "--json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert first == {"key": "greet", "content": "Hi"}
    assert second == {"tool": "get", "arguments": {"a": 1}, "result": None}


def test_show_a_tool_in_full(run, write):
    calls = [
        {"arguments": {"city": "Oslo"}, "result": {"sky": "rain"}, "latency_ms": 7, "recorded_at": NEW},
        {"result": "2026-01-02", "result_type": "date"},
        {"arguments": {}, "error": {"type": "ValueError", "message": "which city?"}},
    ]
    path = write("run.json", get_weather=calls, other=[{"result": "x"}])
    code, out, _ = run("recording", "show", path, "--key", "_tools.get_weather")
    assert code == 0
    for expected in (
        "get_weather · call 1 of 3",
        f"7 ms  {NEW}",
        'get_weather({"city":"Oslo"})',
        '→ {"sky":"rain"}',
        "get_weather((any))",
        "the text of a date",
        "→ 2026-01-02",
        "→ raises ValueError: which city?",
    ):
        assert expected in out
    assert "other" not in out


def test_show_an_unknown_key_reports_the_tools_too(run, write):
    code, _, err = run("recording", "show", write("run.json", get_weather=[{}]), "--key", "get_weather")
    assert code == 2
    assert "_tools.get_weather" in err


def test_check_finds_a_live_secret_of_a_tool_and_does_not_show_it(run, write):
    calls = [
        {"arguments": {"key": LIVE_KEY}, "result": {"a": [LIVE_KEY]}},
        {"arguments": {"password": "hunter2"}, "error": {"type": "ValueError", "message": f"bad {LIVE_KEY}"}},
        {"result": "clean"},
    ]
    path = write("run.json", get=calls)
    code, out, _ = run("recording", "check", path)
    assert code == 1
    assert LIVE_KEY not in out
    for place in ("arguments.key", "result.a[0]", "error.message"):
        assert f"{path}: _tools.get: {place}: looks like a openai-key" in out
    assert "_tools.get: arguments.password: looks like a field password" in out


@pytest.mark.parametrize("suffix", ["json", "db"])
def test_check_refuses_a_call_of_the_wrong_shape(run, tmp_path, write, suffix):
    if suffix == "json":
        location = write("run.json", get=[{"reslt": 1}])
    else:
        location = f"sqlite:///{tmp_path}/run.db"
        good = write("good.json", get=[{"result": 1}])
        run("recording", "merge", good, "-o", location)
        connection = sqlite3.connect(tmp_path / "run.db")
        connection.execute("UPDATE tool_exchanges SET entry = '{\"reslt\": 1}'")
        connection.commit()
        connection.close()
    code, out, _ = run("recording", "check", location)
    assert code == 2
    assert "_tools.get" in out
    assert "did you mean 'result'?" in out


def test_diff_reports_what_tools_were_asked_and_answered_otherwise(run, write):
    first = write(
        "a.json",
        get=[{"arguments": {"city": "Oslo"}, "result": "rain"}, {"result": 1}],
        gone=[{"result": 1}],
        same=[{"arguments": {}, "result": 1, "latency_ms": 5}],
    )
    second = write(
        "b.json",
        get=[{"arguments": {"city": "Rome"}, "result": "sun"}, {"error": {"type": "ValueError"}}],
        new=[{"result": 1}],
        same=[{"arguments": {}, "result": 1, "latency_ms": 9}],
    )
    code, out, _ = run("recording", "diff", first, second)
    assert code == 1
    assert out.splitlines() == [
        "_tools.get, call 1: different request",
        "  arguments:",
        "   {",
        '  -  "city": "Oslo"',
        '  +  "city": "Rome"',
        "   }",
        "_tools.get, call 1: different answer",
        "  result:",
        '  -"rain"',
        '  +"sun"',
        "_tools.get, call 2: different answer",
        "  error:",
        "  +{",
        '  +  "type": "ValueError"',
        "  +}",
        "  result:",
        "  -1",
        "_tools.gone, call 1: only in the first",
        "_tools.new, call 1: only in the second",
        "5 differences",
    ]
    assert run("recording", "diff", first, first)[0] == 0


def test_diff_reports_when_a_call_answers_any_arguments_no_longer(run, write):
    first, second = write("a.json", get={"result": 1}), write("b.json", get={"arguments": {}, "result": 1})
    code, out, _ = run("recording", "diff", first, second, "--json")
    assert code == 1
    (change,) = json.loads(out)["changes"]
    assert change["key"] == "_tools.get"
    assert change["kind"] == "request"


@pytest.mark.parametrize("output", ["all.json", "sqlite:///all.db"])
def test_merge_keeps_all_calls_and_each_only_once(run, write, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    a = write("a.json", get=[{"result": 1}, {"result": 1.0}])
    b = write("b.json", {"greet": {"content": "Hi"}}, get=[{"result": 2}, {"result": 1}], put={"result": 3})
    code, out, _ = run("recording", "merge", a, b, a, "-o", output)
    assert code == 0
    assert out == f"{output}: 5 exchanges of 1 key and 2 tools\n"
    assert open_store(output).load().tools["put"].answer == 3
    assert [call.answer for call in open_store(output).load().tools["get"]] == [1, 1.0, 2]


@pytest.mark.parametrize(("conflict", "side"), [("first", 1), ("last", 2)])
def test_merge_can_keep_one_side_of_a_conflict(run, write, tmp_path, conflict, side):
    a, b = write("a.json", get=[{"result": 1}]), write("b.json", get=[{"result": 2}])
    run("recording", "merge", a, b, "-o", tmp_path / "all.json", "--on-conflict", conflict)
    assert results(tmp_path / "all.json") == {"get": [side]}


def test_redact_takes_secrets_out_of_calls_which_go_on_matching(run, write):
    path = write("run.json", get=[{"arguments": {"key": LIVE_KEY}, "result": f"<{LIVE_KEY}>"}, {"result": "clean"}])
    assert "would change 1 exchange" in run("recording", "redact", path, "--dry-run")[1]
    assert LIVE_KEY in path.read_text()
    assert "changed 1 exchange" in run("recording", "redact", path)[1]
    assert LIVE_KEY not in path.read_text()
    assert run("recording", "check", path)[0] == 0
    assert "changed 0 exchanges" in run("recording", "redact", path)[1]
    tools = replay_tools({"get": lambda key: None}, path)
    assert tools["get"](key=LIVE_KEY).startswith("<<redacted:openai-key:")


def test_redact_adds_no_hash_where_the_arguments_stay(run, write):
    path = write("run.json", get=[{"arguments": {"n": 1}, "result": LIVE_KEY, "error": None}, {"result": LIVE_KEY}])
    run("recording", "redact", path)
    assert "arguments_hash" not in path.read_text()
    assert "changed 1 exchange" in run("recording", "redact", path, "--field", "n")[1]
    assert "arguments_hash" in path.read_text()


def test_prune_removes_what_is_old_failed_or_named(run, write):
    calls = [
        {"result": 1, "recorded_at": OLD},
        {"result": 2, "recorded_at": NEW},
        {"error": {"type": "ValueError"}},
        {"result": 4},
    ]
    path = write("run.json", {"get": {"content": "a step"}}, get=calls, now={"result": 5, "recorded_at": OLD})
    assert "would remove 2, 4 left" in run("recording", "prune", path, "--older-than", "30d", "--dry-run")[1]
    run("recording", "prune", path, "--older-than", "30d")
    assert results(path) == {"get": [2, None, 4]}
    run("recording", "prune", path, "--faults")
    assert results(path) == {"get": [2, 4]}
    assert "removed 2, 1 left" in run("recording", "prune", path, "--key", "_tools.get")[1]
    document = open_store(path).load()
    assert document.tools == {}
    assert document.entries["get"].content == "a step"
