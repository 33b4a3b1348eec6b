"""What holds for every text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.agent import ScriptedClient, TextResponse, Workflow, WorkflowRunner
from offbook.agent.rescue import Rescue, rescue
from offbook.messages import ToolCall
from offbook.tools import Toolbox
from tests.agent.rescue.forms import FORMS, TAG_FORMS, calls, names, tag_calls
from tests.agent.rescue.test_corpus import FAMILIES

TOOLS = ("search", "get_weather", "refund")
CALL = '{"tool": "search", "args": {"query": "a"}}'
PIECES = [
    *"{}[]()<>|/\\\"'`,:;=#\n ",
    "search",
    "refund",
    "tool",
    "args",
    "name",
    "arguments",
    "<tool_call>",
    "</tool_call>",
    "<function=search>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "<arg_key>",
    "</arg_key><arg_value>",
    "</arg_value>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<think>",
    "</think>",
    "```",
    "<|channel|>analysis<|message|>",
    " to=functions.search",
    "<|tool_call_begin|>",
    "<|python_tag|>",
    "<|im_start|>",
    '{"tool": "search", "args": {',
    '{"name": "drop", "arguments": {}}',
    "search(query=",
    "1",
    '"a"',
]
WORDS = [
    *("the", "order", "is", "for", "you", "I", "can", "use", "a", "tool", "like", "and", "then", "maybe"),
    *("search", "refund", "`search`", "search(query)", "refund(order.id)", '"refund"', "(see refund)", "refund:"),
    *("search, e.g. search(query)", "{query}", "[1]", "<b>refund</b>", "refund's", "search/refund", "{id: 7}"),
    *(
        '{"id": 7}',
        '{"name": "refund"}',
        "refund (id=7)",
        "refund{}",
        "[refund]",
        "search -> refund",
        "I'll",
        "\n",
        ".",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text())
def test_no_text_makes_it_raise_or_call_an_unknown_tool(text):
    rescued = rescue(text, TOOLS)
    assert all(call.tool in TOOLS for call in rescued.calls)
    assert rescued == rescue(text, TOOLS)
    assert rescued.calls or rescued.text == text
    assert rescue(text, ()) == Rescue((), text)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_prose_that_talks_of_tools_calls_none(prose):
    assert rescue(prose, TOOLS) == Rescue((), prose)


def pairs(calls):
    return [(call.tool, call.args) for call in calls]


@given(wanted=calls, cut_at=st.integers(0, 1000))
def test_calls_written_in_any_form_are_read_back_and_a_cut_never_changes_them(wanted, cut_at):
    tools = {call.tool for call in wanted}
    for form, written in FORMS.items():
        text = written(wanted)
        rescued = rescue(text, tools)
        assert pairs(rescued.calls) == pairs(wanted), form
        assert rescued.text == "", form
        cut = rescue(text[: cut_at % (len(text) + 1)], tools)
        assert pairs(cut.calls) == pairs(wanted)[: len(cut.calls)], form


plain_calls = st.lists(
    st.builds(ToolCall, st.sampled_from(TOOLS), st.dictionaries(names, st.integers(0, 9), max_size=2)),
    min_size=1,
    max_size=2,
)
forms = st.sampled_from(sorted(FORMS.keys() - {"python list", "python lines"}))  # beside other words they are prose


@given(
    plain_calls, plain_calls, forms, forms, st.sampled_from(["", " ", "\n", "\n\n", " and ", ", then:\n", ". Next: "])
)
def test_of_calls_in_one_text_all_are_rescued_or_none(first, second, one_form, other_form, glue):
    text = FORMS[one_form](first) + glue + FORMS[other_form](second)
    assert pairs(rescue(text, TOOLS).calls) in ([], pairs([*first, *second]))


@given(wanted=tag_calls)
def test_calls_with_bare_parameters_are_read_back(wanted):
    for form, written in TAG_FORMS.items():
        rescued = rescue(written(wanted), {call.tool for call in wanted})
        assert pairs(rescued.calls) == pairs(wanted), form
        assert rescued.text == "", form


CORPUS_TEXTS = [entry["text"] for entries in FAMILIES.values() for entry in entries]


@given(st.sampled_from(CORPUS_TEXTS), st.data())
def test_a_corpus_text_with_characters_lost_or_changed_names_no_other_tool(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 3)))
    changed = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:]
    assert {call.tool for call in rescue(changed, TOOLS).calls} <= set(TOOLS)


HOSTILE_UNITS = [
    *("{", "[", "<", "(", "`", "{'", "{/*", "{# ", "{a:", "-1", "\\", "{ ", "[ ", "```", "```\n{", "search", "search "),
    *('{"a":', '[{"a":', "{'a':1}\n", "{'a':1} x ", CALL + "\n", CALL + " x\n", "search[ARGS]", "search[ARGS]{}"),
    *("<tool_call>", "<tool_call>search", "<function=search>", "<function=search><parameter=a>", "<arg_key>"),
    *("<think>", "</think>", "\n</think>{", "{a:x\n</think>", "<|channel|>analysis<|message|>", "<|im_end|>", "<|"),
    *("<|tool_call_begin|>", "search(a=", "search()\n", "[search(a=1),", "[TOOL_CALLS]", "[TOOL_CALLS]search{}"),
]
BEFORE_HOSTILE = ("", "search(x=", '{"tool": "search", "args": {"a": "', "<tool_call>")


@pytest.mark.parametrize("before", BEFORE_HOSTILE)
def test_hostile_texts_of_a_hundred_thousand_characters_take_linear_time(before):
    """A quadratic reader would take minutes for one of them; all of them take about a second."""
    for unit in HOSTILE_UNITS:
        started_s = time.process_time()
        rescue(before + unit * (100_000 // len(unit)) + ("" if before else " search"), TOOLS)
        assert time.process_time() - started_s < 20, unit


def test_a_call_that_is_nested_beyond_measure_is_none():
    text = '{"tool": "search", "args": ' + '{"a":' * 50_000 + "1" + "}" * 50_001
    assert rescue(text, TOOLS) == Rescue((), text)


def test_a_text_of_more_than_a_million_characters_is_not_looked_into():
    padding = "a" * (1_000_000 - len(CALL) - 2)
    assert rescue(f"{padding}.\n{CALL}", TOOLS).calls
    assert not rescue(f"{padding}.\n\n{CALL}", TOOLS).calls


def test_any_collection_of_names_will_do():
    assert rescue(CALL, {"search": object()}) == rescue(CALL, ["search"]) == rescue(CALL, frozenset({"search"}))


def test_a_rescued_call_has_no_id():
    [call] = rescue('{"id": "call_1", "name": "search", "arguments": {}}', TOOLS).calls
    assert call.id is None


def weather(zip_code: str, days: int = 1, note: str | None = None) -> str:
    """The weather."""
    return f"{zip_code} {days} {note}"


@pytest.mark.parametrize(
    "text",
    [
        (
            "<tool_call><function=weather><parameter=zip_code>10115</parameter>"
            "<parameter=days>3</parameter></function></tool_call>"
        ),
        (
            "<tool_call>weather<arg_key>zip_code</arg_key><arg_value>10115</arg_value>"
            "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"
        ),
    ],
)
def test_between_tags_the_schema_says_whether_a_number_is_a_text(text):
    assert rescue(text, Toolbox([weather])).calls[0].args == {"zip_code": "10115", "days": 3}
    assert rescue(text, ["weather"]).calls[0].args == {"zip_code": 10115, "days": 3}


def test_a_guarded_loop_runs_a_rescued_call_with_the_text():
    answer = "<tool_call><function=weather><parameter=zip_code>10115</parameter></function></tool_call>"
    client = ScriptedClient([TextResponse(answer)])
    flow = Workflow("weather", tools=[weather], terminal_tool="weather")
    assert WorkflowRunner(client).run_sync(flow, "Berlin?") == "10115 1 None"
