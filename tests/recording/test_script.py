"""Scripts of runs, and who reads them to others."""

from offbook.recording.script import Script


def script_of(*answers):
    script = Script[str]()
    for name, asked, answer in answers:
        script.add(name, asked, answer)
    return script


TWO = script_of(("a", "hi", "one"), ("a", "ho", "other"), ("a", "hi", "two"), ("b", "hi", "three"))


def test_equal_requests_get_their_answers_in_order_and_then_the_last_one_again():
    prompter = TWO.prompter()
    assert [prompter.take("a", "hi") for _ in range(4)] == ["one", "two", "two", "two"]
    assert prompter.take("b", "hi") == "three"


def test_each_reader_begins_at_the_beginning():
    TWO.prompter().take("a", "hi")
    assert TWO.prompter().take("a", "hi") == "one"


def test_what_was_never_asked_has_no_answer():
    prompter = TWO.prompter()
    assert prompter.take("a", "hm") is None
    assert prompter.peek("b", "ho") is None


def test_who_looks_takes_nothing():
    prompter = TWO.prompter()
    assert [prompter.peek("a", "hi") for _ in range(3)] == ["one"] * 3


def test_an_answer_that_was_lost_is_due_again():
    prompter = TWO.prompter()
    prompter.give_back("a", "hi")
    assert prompter.take("a", "hi") == "one"
    assert prompter.take("a", "hi") == "two"
    prompter.give_back("a", "hi")
    assert prompter.take("a", "hi") == "two"


def test_what_one_run_learns_no_other_knows():
    prompter = TWO.prompter()
    prompter.learn("a", "hm", "learnt")
    prompter.learn("a", "hm", "learnt later")
    assert [prompter.take("a", "hm") for _ in range(2)] == ["learnt later"] * 2
    assert TWO.prompter().take("a", "hm") is None
