"""A call of a tool that finds no answer is told why: the nearest call, what differs, or that it was used up."""

import pytest

from offbook.errors import RecordingMismatchError
from offbook.recording.tool_replay import replay_tools

LIVE_KEY = "sk-" + "proj-" + "Zx81" * 8


def search(**arguments):
    """A tool that takes anything and must not run."""
    raise AssertionError


def missed(recorded, *calls, tool="search"):
    """The error with which a strict replay of these arguments, each once, refuses the last of the calls."""
    exchanges = [{"arguments": arguments, "result": "x"} for arguments in recorded]
    tools = replay_tools({tool: search}, {"_tools": {"search": exchanges}} if exchanges else {})
    for arguments in calls[:-1]:
        tools[tool](**arguments)
    with pytest.raises(RecordingMismatchError) as caught:
        tools[tool](**calls[-1])
    error = caught.value
    assert error.key == tool
    assert len(str(error).splitlines()) <= 30
    assert str(error).replace("\n", "").isprintable()
    return error


def test_a_drift_shows_the_nearest_call_and_what_differs():
    recorded = [{"query": "parrots"}, {"query": "weather in Oslo", "limit": 5}, {"query": "cheese", "limit": 9}]
    error = missed(recorded, {"query": "weather in Rome", "limit": 5})
    assert error.kind == "drifted"
    assert str(error) == (
        "recording: tool 'search' was not recorded with these arguments. Record it again, or undo the change."
        " The nearest call differs:\n"
        "  arguments:\n"
        '     "limit": 5,\n'
        '  -  "query": "weather in Oslo"\n'
        '  +  "query": "weather in Rome"\n'
        "   }"
    )


def test_a_drift_shows_arguments_that_came_or_went():
    assert '+  "limit": null,' in missed([{"query": "a"}], {"query": "a", "limit": None}).difference
    assert '-  "limit": 5,' in missed([{"query": "a", "limit": 5}], {"query": "a"}).difference


def test_arguments_named_messages_are_arguments_like_any_other():
    assert '+  "messages": "b"' in missed([{"messages": "a"}], {"messages": "b"}).difference


def test_what_is_used_up_is_said_to_be():
    error = missed([{"n": 1}, {"n": 1}], {"n": 1}, {"n": 1}, {"n": 1})
    assert (error.kind, error.difference) == ("exhausted", "")
    assert str(error) == "recording: tool 'search': it has 2 answers, and what fits was served already."


def test_what_is_used_up_and_asked_something_new_shows_the_difference():
    error = missed([{"n": 1}, {"n": 2}], {"n": 1}, {"n": 2}, {"n": 3})
    assert error.kind == "exhausted"
    assert "The nearest call differs:" in str(error)
    assert '+  "n": 3' in error.difference


def test_calls_that_do_not_say_what_they_answer_are_used_up_without_a_difference():
    tools = replay_tools({"search": search}, {"_tools": {"search": [{"result": 1}]}})
    tools["search"]()
    with pytest.raises(RecordingMismatchError, match="one answer in a list") as caught:
        tools["search"](n=1)
    assert caught.value.difference == ""


def test_a_tool_that_is_not_there_is_told_the_one_that_was_meant():
    error = missed([{}], {}, tool="serach")
    assert (error.kind, error.difference) == ("missing", "")
    assert str(error) == ("recording: tool 'serach' is not in the recording. Did you mean 'search'? It has: 'search'")


def test_a_tool_like_no_other_is_told_those_that_are_there():
    assert str(missed([{}], {}, tool="zzz")) == "recording: tool 'zzz' is not in the recording. It has: 'search'"


def test_an_empty_recording_is_said_to_be_empty():
    assert str(missed([], {})) == "recording: tool 'search' is not in the recording. It has no calls of tools."


def test_many_tools_are_not_all_listed():
    recording = {"_tools": {f"tool_{number:03}": {} for number in range(50)}}
    with pytest.raises(RecordingMismatchError, match=r"'tool_011', …$"):
        replay_tools({"zzz": search}, recording)["zzz"]()


def test_secrets_of_the_live_call_are_not_shown():
    error = missed([{"key": "old"}], {"key": LIVE_KEY, "password": "hunter2"})
    assert LIVE_KEY not in str(error)
    assert "hunter2" not in str(error)


def test_control_characters_do_not_reach_the_terminal_and_long_texts_are_cut():
    missed([{"text": "plain"}], {"text": "\x1b[2J\x07\u202e" + "long " * 10_000})


def test_a_call_that_has_only_a_hash_does_not_say_what_was_asked():
    tools = replay_tools({"search": search}, {"_tools": {"search": {"arguments_hash": "x"}}})
    with pytest.raises(RecordingMismatchError, match="does not say what was asked") as caught:
        tools["search"](n=1)
    assert caught.value.kind == "drifted"
