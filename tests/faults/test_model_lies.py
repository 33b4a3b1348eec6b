"""Plausible answers of a model that are not what it said."""

import pytest

from offbook import MockProvider, run
from offbook.faults import FaultInjector, FaultPlan, parse_fault
from offbook.messages import Request

HI = {"role": "user", "content": "Hi"}
SAID = {"role": "assistant", "content": "Let me look."}
CALLS = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"city": "Oslo"}'}}],
}


def answer(fault, said, *messages):
    model = FaultInjector(MockProvider(responses={"a": said}), FaultPlan([parse_fault(f"everywhere: {fault}")]))

    async def work():
        return await (await model.send(Request(messages=messages or (HI,), model="m", step_id="a"))).collect()

    return run(work())


@pytest.mark.parametrize(
    ("fault", "said", "told"),
    [
        ("garbled_content", "one two three", "three two one"),
        ("wrong_fields", '{"total": 3}', '{"the_total":3}'),
        ("wrong_fields", '```json\n{"total": 3}\n```', '{"the_total":3}'),
        ("wrong_fields", "[3]", "[3]"),
        ("wrong_fields", "three", "three"),
        ("previous_answer", "three", "three"),
    ],
)
def test_another_content_stands_in_a_valid_answer(fault, said, told):
    response = answer(fault, {"content": said})
    assert (response.content, response.finish_reason) == (told, "stop")


def test_the_previous_answer_comes_again_with_its_calls_under_new_ids():
    assert answer("previous_answer", {"content": "Done."}, HI, SAID, HI).content == "Let me look."
    again = answer("previous_answer", {"content": "Done."}, HI, CALLS)
    assert [(each.tool, each.args) for each in again.tool_calls] == [("find", {"city": "Oslo"})]
    assert again.tool_calls[0].id != "call_1"
    assert again.finish_reason == "tool_calls"


def test_arguments_have_other_names_and_the_same_values():
    said = {"tool_calls": [{"name": "find", "arguments": {"city": "Oslo"}}]}
    assert answer("wrong_names", said).tool_calls[0].args == {"the_city": "Oslo"}
