"""What stands for messages that were dropped."""

from hypothesis import given
from hypothesis import strategies as st

from offbook.agent.context import Summary
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from tests.agent.context.parts import call, nudge, refused, text, user


def test_it_tells_how_many_messages_which_calls_and_what_is_left_to_do():
    dropped = [*call("one", "two"), *call("three", tool="parse"), text(), *refused(), nudge()]
    message = Summary.of(dropped, step_hint="Done: fetch. To do: submit.").to_message(step_index=3)
    assert message.content == (
        "Earlier messages left out here to save space: 9. "
        'Tool calls in them: {"fetch": 2, "parse": 1}.\nDone: fetch. To do: submit.'
    )
    assert (message.role, message.metadata) == (MessageRole.USER, MessageMeta(MessageType.SUMMARY, 3))


def test_without_a_hint_it_is_one_line():
    assert "\n" not in Summary.of([user()], step_hint="").to_message(step_index=None).content


@given(st.integers(0), st.dictionaries(st.text(), st.integers(1)), st.text())
def test_what_it_tells_can_be_read_back(left_out, calls, step_hint):
    summary = Summary(left_out, calls, step_hint)
    assert Summary.read(summary.to_message(step_index=None)) == summary


def test_a_summary_of_summaries_adds_them_up():
    older = Summary(5, {"fetch": 2}, "Done: fetch.").to_message(step_index=1)
    assert Summary.of([older, *call("one")], step_hint="Done: all.") == Summary(7, {"fetch": 3}, "Done: all.")
    assert Summary.of([older, user()], step_hint="") == Summary(6, {"fetch": 2}, "Done: fetch.")


def test_what_others_wrote_is_no_summary_of_ours():
    told = Summary(5, {}).to_message(step_index=1).content
    assert Summary.read(user(told)) is None
    assert Summary.read(Message(MessageRole.USER, "We spoke of cats.", MessageMeta(MessageType.SUMMARY))) is None
