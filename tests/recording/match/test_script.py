"""Scripts of runs, and who reads them to others."""

from offbook.recording.match.cursor import ResponseScript


def script_of(*answers):
    script = ResponseScript[str]()
    for name, asked, answer in answers:
        script.add(name, asked, answer)
    return script


TWO = script_of(("a", "hi", "one"), ("a", "ho", "other"), ("a", "hi", "two"), ("b", "hi", "three"))


def test_equal_requests_get_their_answers_in_order_and_then_the_last_one_again():
    script_reader = TWO.script_reader()
    assert [script_reader.take("a", "hi") for _ in range(4)] == ["one", "two", "two", "two"]
    assert script_reader.take("b", "hi") == "three"


def test_each_reader_begins_at_the_beginning():
    TWO.script_reader().take("a", "hi")
    assert TWO.script_reader().take("a", "hi") == "one"


def test_what_was_never_asked_has_no_answer():
    script_reader = TWO.script_reader()
    assert script_reader.take("a", "hm") is None
    assert script_reader.peek("b", "ho") is None


def test_who_looks_takes_nothing():
    script_reader = TWO.script_reader()
    assert [script_reader.peek("a", "hi") for _ in range(3)] == ["one"] * 3


def test_an_answer_that_was_lost_is_due_again():
    script_reader = TWO.script_reader()
    script_reader.give_back("a", "hi")
    assert script_reader.take("a", "hi") == "one"
    assert script_reader.take("a", "hi") == "two"
    script_reader.give_back("a", "hi")
    assert script_reader.take("a", "hi") == "two"


def test_what_one_run_learns_no_other_knows():
    script_reader = TWO.script_reader()
    script_reader.learn("a", "hm", "learnt")
    script_reader.learn("a", "hm", "learnt later")
    assert [script_reader.take("a", "hm") for _ in range(2)] == ["learnt later"] * 2
    assert TWO.script_reader().take("a", "hm") is None
