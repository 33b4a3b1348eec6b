"""What holds for every text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.agent.rescue import Rescue, rescue
from tests.agent.rescue.forms import FORMS, TAG_FORMS, calls, tag_calls
from tests.agent.rescue.test_corpus import ENTRIES

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
def test_no_text_makes_it_raise_or_name_a_tool_that_is_not_there(text):
    rescued = rescue(text, TOOLS)
    assert all(call.tool in TOOLS for call in rescued.calls)
    assert rescued == rescue(text, TOOLS)
    assert rescued.calls or rescued.text == text


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_without_tools_there_are_no_calls(text):
    assert rescue(text, ()) == Rescue((), text)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_prose_that_talks_of_tools_calls_none(prose):
    assert rescue(prose, TOOLS) == Rescue((), prose)


@pytest.mark.parametrize("form", FORMS)
@given(wanted=calls)
def test_calls_written_in_a_form_are_read_as_they_were(form, wanted):
    rescued = rescue(FORMS[form](wanted), {call.tool for call in wanted})
    assert [(call.tool, call.args) for call in rescued.calls] == [(call.tool, call.args) for call in wanted]
    assert rescued.text == ""


@pytest.mark.parametrize("form", TAG_FORMS)
@given(wanted=tag_calls)
def test_calls_with_bare_parameters_are_read_as_they_were(form, wanted):
    rescued = rescue(TAG_FORMS[form](wanted), {call.tool for call in wanted})
    assert [(call.tool, call.args) for call in rescued.calls] == [(call.tool, call.args) for call in wanted]
    assert rescued.text == ""


@pytest.mark.parametrize("form", FORMS)
@given(wanted=calls, data=st.data())
def test_a_cut_never_changes_what_a_call_is_made_with(form, wanted, data):
    text = FORMS[form](wanted)
    cut = rescue(text[: data.draw(st.integers(0, len(text)))], {call.tool for call in wanted})
    assert [(call.tool, call.args) for call in cut.calls] == [(call.tool, call.args) for call in wanted][
        : len(cut.calls)
    ]


@given(st.sampled_from(ENTRIES).map(lambda entry: entry.values[0]["text"]), st.data())
def test_a_corpus_text_with_characters_lost_or_changed_names_no_other_tool(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 3)))
    changed = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:]
    assert {call.tool for call in rescue(changed, TOOLS).calls} <= set(TOOLS)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "{",
            "[",
            "<",
            "(",
            "`",
            "{'",
            "{/*",
            "{# ",
            "{a:",
            "-1",
            "\\",
            "{ ",
            "[ ",
            "```",
            "```\n{",
            "search",
            "search ",
        ),
        *('{"a":', '[{"a":', "{'a':1}\n", "{'a':1} x ", CALL + "\n", CALL + " x\n", "search[ARGS]", "search[ARGS]{}"),
        *("<tool_call>", "<tool_call>search", "<function=search>", "<function=search><parameter=a>", "<arg_key>"),
        *("<think>", "</think>", "\n</think>{", "{a:x\n</think>", "<|channel|>analysis<|message|>", "<|im_end|>", "<|"),
        *("<|tool_call_begin|>", "search(a=", "search()\n", "[search(a=1),", "[TOOL_CALLS]", "[TOOL_CALLS]search{}"),
    ],
)
def test_hostile_texts_of_a_third_of_a_million_characters_take_no_time(unit):
    text = unit * (300_000 // len(unit))
    started_s = time.process_time()
    for hostile in (
        text + " search",
        "search(x=" + text,
        '{"tool": "search", "args": {"a": "' + text,
        "<tool_call>" + text,
    ):
        rescue(hostile, TOOLS)
    assert time.process_time() - started_s < 60


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
