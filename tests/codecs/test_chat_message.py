"""Ids for tool calls that have none."""

from offbook.codecs.chat_message import CallIds


def test_calls_are_numbered_over_the_conversation():
    ids = CallIds()
    assert [ids.of_call("a"), ids.of_call("b", given="mine"), ids.of_call("a")] == ["call_0", "mine", "call_2"]


def test_a_result_answers_the_first_open_call_of_its_tool():
    ids = CallIds()
    for tool in ("a", "b", "b"):
        ids.of_call(tool)
    assert [ids.of_result("b"), ids.of_result("b"), ids.of_result("a")] == ["call_1", "call_2", "call_0"]


def test_a_result_that_names_no_known_tool_answers_the_first_open_call():
    ids = CallIds()
    for tool in ("a", "b"):
        ids.of_call(tool)
    assert [ids.of_result(None), ids.of_result("c")] == ["call_0", "call_1"]


def test_a_result_that_has_an_id_keeps_it_and_closes_that_call():
    ids = CallIds()
    for tool in ("a", "a"):
        ids.of_call(tool)
    assert [ids.of_result("a", given="call_0"), ids.of_result("a")] == ["call_0", "call_1"]
    assert ids.of_result("a", given="unknown") == "unknown"


def test_a_result_that_answers_no_call_has_a_number_of_its_own():
    ids = CallIds()
    assert [ids.of_result("a"), ids.of_call("a")] == ["call_0", "call_1"]
