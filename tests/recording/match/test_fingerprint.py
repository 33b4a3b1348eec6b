"""The fingerprint: what it covers, what it does not see, and that its format stays."""

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.errors import RequestError
from offbook.messages import Message, Request, ToolCall, plain_messages
from offbook.recording.match.fingerprint import NormaliseRules, canonical_fields, fingerprint, identify

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
PLAIN = Request(({"role": "user", "content": "Hi"},), "gpt-4o")
FULL = Request(
    messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Wetter in Köln?"}),
    model="gpt-4o",
    temperature=0.7,
    max_tokens=100,
    tools=(WEATHER,),
    tool_choice="auto",
    extra={"seed": 7},
)
CALLS = [
    {"id": f"call_{name}", "type": "function", "function": {"name": "get_weather", "arguments": f'{{"city":"{name}"}}'}}
    for name in ("Oslo", "Rome", "Lima")
]
RESULTS = [
    {"role": "tool", "tool_call_id": f"call_{name}", "content": f"{name}: sun"} for name in ("Oslo", "Rome", "Lima")
]


def with_tools(calls, results):
    message = {"role": "user", "content": "Where is sun?"}
    return Request((message, {"role": "assistant", "content": None, "tool_calls": calls}, *results), "gpt-4o")


def asking(*messages):
    return Request(messages, "gpt-4o")


def test_the_format_of_fingerprints_stays():
    assert fingerprint(PLAIN) == "cdea2fc4384f87904b34b244ebf720f15ae77cbecdc2ef28a0f64e2a9a4c3039"
    assert fingerprint(FULL) == "9354d546e1c7f666869b481ee9e631273713e4d0cb317e899f68d27833e371e2"
    assert fingerprint(with_tools(CALLS, RESULTS)) == "e3f5163170d5b64ef58962b99e56f4485fbc5957fdecb6399f4ddb501d3168b8"


@pytest.mark.parametrize(
    "change",
    [
        {"model": "gpt-4o-mini"},
        {"temperature": 0.8},
        {"temperature": None},
        {"max_tokens": 101},
        {"max_tokens": None},
        {"tools": ()},
        {"tools": (WEATHER, WEATHER)},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        {"extra": {"seed": 8}},
        {"extra": {}},
        {"messages": FULL.messages[1:]},
        {"messages": (FULL.messages[0], {"role": "user", "content": "Wetter in Köln? "})},
        {"messages": (FULL.messages[0], {"role": "assistant", "content": "Wetter in Köln?"})},
        {"messages": FULL.messages[::-1]},
    ],
)
def test_it_covers_what_is_asked(change):
    assert fingerprint(replace(FULL, **change)) != fingerprint(FULL)


@pytest.mark.parametrize("change", [{"step_id": "other"}, {"attempt": 3}, {"stream": True}])
def test_it_does_not_cover_who_asks_and_how(change):
    assert fingerprint(replace(FULL, **change)) == fingerprint(FULL)


def backwards(value):
    """The value with the keys of all its dicts in the opposite order."""
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list | tuple) else value


def test_the_order_of_keys_does_not_matter():
    turned = replace(
        FULL, messages=tuple(backwards(FULL.messages)), tools=tuple(backwards(FULL.tools)), extra={"seed": 7}
    )
    assert fingerprint(turned) == fingerprint(FULL)
    tools = with_tools(CALLS, RESULTS)
    assert fingerprint(replace(tools, messages=tuple(backwards(tools.messages)))) == fingerprint(tools)


def test_a_whole_temperature_is_the_same_written_with_or_without_a_point():
    assert fingerprint(replace(PLAIN, temperature=0)) == fingerprint(replace(PLAIN, temperature=0.0))
    assert fingerprint(replace(PLAIN, temperature=1)) == fingerprint(replace(PLAIN, temperature=1.0))
    assert fingerprint(replace(PLAIN, temperature=0)) != fingerprint(PLAIN)


def test_tools_and_messages_may_stand_in_lists_or_tuples():
    assert fingerprint(replace(FULL, messages=list(FULL.messages), tools=list(FULL.tools))) == fingerprint(FULL)


def test_extra_may_be_any_mapping():
    assert fingerprint(replace(FULL, extra=MappingProxyType({"seed": 7}))) == fingerprint(FULL)


def test_values_of_message_count_as_the_dicts_they_become():
    call = ToolCall("get_weather", {"city": "Oslo"}, "call_1")
    values = [
        Message("user", "Sun?"),
        Message("assistant", tool_calls=(call,)),
        Message("tool", "yes", tool_call_id="call_1"),
    ]
    dicts = [
        {"role": "user", "content": "Sun?"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "content": "yes", "tool_call_id": "x"},
    ]
    assert fingerprint(asking(*plain_messages(values))) == fingerprint(asking(*dicts))


def test_absent_values_and_ids_of_messages_do_not_matter():
    bare = asking({"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": CALLS[:1]}, RESULTS[0])
    noisy = asking(
        {"role": "user", "content": "Hi", "id": "msg_1", "name": None},
        {"role": "assistant", "content": None, "tool_calls": CALLS[:1], "refusal": None, "id": "msg_2"},
        RESULTS[0] | {"id": "msg_3"},
    )
    assert fingerprint(noisy) == fingerprint(bare)


def test_an_empty_content_is_not_an_absent_one():
    assert fingerprint(asking({"role": "user", "content": ""})) != fingerprint(asking({"role": "user"}))


def renamed(messages, names):
    """The messages with their tool-call ids renamed."""
    result = []
    for message in messages:
        changed = dict(message)
        if "tool_calls" in message:
            changed["tool_calls"] = [{**call, "id": names[call["id"]]} for call in message["tool_calls"]]
        if "tool_call_id" in message:
            changed["tool_call_id"] = names[message["tool_call_id"]]
        result.append(changed)
    return tuple(result)


@given(st.lists(st.text(min_size=1), min_size=3, max_size=3, unique=True))
def test_tool_call_ids_may_have_any_names(names):
    request = with_tools(CALLS, RESULTS)
    new_names = dict(zip((call["id"] for call in CALLS), names, strict=True))
    assert fingerprint(replace(request, messages=renamed(request.messages, new_names))) == fingerprint(request)


@given(st.permutations(RESULTS), st.permutations(["a", "b", "c"]), st.booleans())
def test_neighbouring_tool_results_may_come_in_any_order(results, names, goes_on):
    further = [{"role": "user", "content": "And tomorrow?"}] if goes_on else []
    request, shuffled = with_tools(CALLS, [*RESULTS, *further]), with_tools(CALLS, [*results, *further])
    new_names = dict(zip((call["id"] for call in CALLS), names, strict=True))
    assert fingerprint(shuffled) == fingerprint(request)
    assert fingerprint(replace(shuffled, messages=renamed(shuffled.messages, new_names))) == fingerprint(request)


def test_results_of_other_calls_are_another_request():
    swapped = [RESULTS[0] | {"content": RESULTS[1]["content"]}, RESULTS[1] | {"content": RESULTS[0]["content"]}]
    assert fingerprint(with_tools(CALLS, [*swapped, RESULTS[2]])) != fingerprint(with_tools(CALLS, RESULTS))


def test_tool_results_with_something_between_them_keep_their_order():
    between = {"role": "user", "content": "wait"}
    first = with_tools(CALLS[:2], [RESULTS[0], between, RESULTS[1]])
    second = with_tools(CALLS[:2], [RESULTS[1], between, RESULTS[0]])
    assert fingerprint(first) != fingerprint(second)


def test_content_parts_are_covered_and_not_looked_into():
    def image(url):
        return asking({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url, "detail": None}}]})

    assert fingerprint(image("a.png")) == fingerprint(image("a.png"))
    assert fingerprint(image("a.png")) != fingerprint(image("b.png"))


@pytest.mark.parametrize(
    "request_",
    [
        asking({"role": "user", "content": b"bytes"}),
        asking({"role": "user", "content": {1, 2}}),
        asking({"role": "user", "content": "\ud800"}),
        asking({"role": "user", "content": [{"type": "text", 5: "x"}]}),
        replace(PLAIN, extra={"callback": print}),
        replace(PLAIN, extra={"number": 2**70}),
        replace(PLAIN, tools=(object(),)),
        replace(PLAIN, temperature="hot"),
        replace(PLAIN, temperature=[1]),
    ],
)
@pytest.mark.parametrize("identify_it", [fingerprint, identify])
def test_what_json_cannot_hold_is_an_error_of_the_request(request_, identify_it):
    with pytest.raises(RequestError):
        identify_it(request_)


def test_odd_tool_calls_do_not_stand_in_the_way():
    assert fingerprint(asking({"role": "assistant", "tool_calls": 5})) == fingerprint(
        asking({"role": "assistant", "tool_calls": 5, "content": None})
    )
    assert fingerprint(asking({"role": "assistant", "tool_calls": ["x"]}))


@pytest.mark.parametrize("rules", [NormaliseRules(), NormaliseRules(mask=(r"\d+",), whitespace=True)])
def test_identify_gives_the_same_fingerprint_and_the_fields_as_they_were_asked(rules):
    request = with_tools(CALLS, RESULTS[::-1])
    request_hash, data = identify(request, rules)
    assert request_hash == fingerprint(request, rules)
    assert data.index(b"Lima: sun") < data.index(b"Oslo: sun")
    assert b"call_Oslo" in data


def test_canonical_fields_leave_out_what_was_not_asked():
    assert canonical_fields(PLAIN) == {"model": "gpt-4o", "messages": PLAIN.messages}
    assert canonical_fields(FULL).keys() == {
        *("model", "messages", "temperature", "max_tokens", "tools", "tool_choice", "extra")
    }


def test_fingerprinting_changes_nothing_in_the_request():
    request = with_tools([dict(call) for call in CALLS], [dict(result) for result in RESULTS[::-1]])
    fingerprint(request, NormaliseRules(ignore=("messages[*].content",), mask=("sun",)))
    assert request == with_tools(CALLS, RESULTS[::-1])
