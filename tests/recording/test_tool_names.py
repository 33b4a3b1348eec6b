"""The tools that a recording shows."""

import orjson

from offbook.recording.tool_names import called_tool_names, recorded_tool_names

OFFERED = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "find_order", "arguments": {}}]}


def written(path, document):
    path.write_bytes(orjson.dumps({"_version": 2, **document}))
    return path


def test_tools_are_called_or_offered_or_recorded(tmp_path):
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [OFFERED, {"type": "web_search"}],
    }
    tools = {"mail": [{"arguments": {}, "result": "sent"}]}
    path = written(tmp_path / "run.json", {"any": [ASKING, {"content": "x", "request": request}], "_tools": tools})
    names = recorded_tool_names(path)
    assert names.called == called_tool_names(path) == ("find_order", "mail")
    assert names.offered == ("refund",)
    assert names.known == {"find_order", "mail", "refund"}


def test_a_recording_may_show_no_tools(tmp_path):
    assert recorded_tool_names(written(tmp_path / "run.json", {"any": {"content": "Hi"}})).known == frozenset()


def test_a_folder_shows_the_tools_of_all_its_recordings(tmp_path):
    written(tmp_path / "a.json", {"any": [ASKING]})
    (tmp_path / "more").mkdir()
    written(tmp_path / "more" / "b.json", {"_tools": {"mail": [{"arguments": {}, "result": "sent"}]}})
    assert recorded_tool_names(tmp_path).called == ("find_order", "mail")
