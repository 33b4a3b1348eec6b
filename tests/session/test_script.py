"""A script: later runs get the answers that the first run got."""

import pytest

from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.stores.memory import MemoryReader
from offbook.session.script import Script

HI, HO, TO_B = ("a", "hi"), ("a", "ho"), ("b", "hi")
ANSWERS = ((HI, "one"), (TO_B, "three"), (HI, "two"))
RECORDING = MemoryReader(Document(entries={text: [Exchange(content=text)] for _, text in ANSWERS}), source="run.json")
STORED = {stored.exchange.content: stored for stored in RECORDING}


@pytest.fixture
def script():
    script = Script()
    first = script.start_run()
    for key, text in ANSWERS:
        assert first.next_answer(key) is None
        assert first.accepts(key, None)
        first.use(ExchangeMatch("step_id", STORED[text], script_key=key))
    return script


def text_of(match):
    return match.stored.exchange.content


def answers(run, key, times):
    """Use the next answer so many times."""
    used = []
    for _ in range(times):
        used.append(run.next_answer(key))
        run.use(used[-1])
    return [text_of(match) for match in used]


def test_equal_requests_get_their_answers_in_order_and_then_the_last_again(script):
    run = script.start_run()
    assert answers(run, HI, 4) == ["one", "two", "two", "two"]
    assert text_of(run.next_answer(TO_B)) == "three"


def test_every_run_starts_at_the_beginning(script):
    answers(script.start_run(), HI, 2)
    assert answers(script.start_run(), HI, 1) == ["one"]


def test_an_answer_stays_next_until_it_is_used(script):
    run = script.start_run()
    assert [text_of(run.next_answer(HI)) for _ in range(3)] == ["one"] * 3


def test_what_was_never_asked_has_no_answer_but_one_of_the_very_request(script):
    run = script.start_run()
    assert run.next_answer(HO) is None
    assert [run.accepts(HO, fingerprint) for fingerprint in ("ho", "hi", None)] == [True, False, False]


def test_an_answer_that_was_lost_is_next_again(script):
    run = script.start_run()
    run.take_back(HI)
    assert answers(run, HI, 2) == ["one", "two"]
    run.take_back(HI)
    assert answers(run, HI, 1) == ["two"]


def test_what_a_later_run_adds_is_for_this_run_alone(script):
    run = script.start_run()
    run.use(ExchangeMatch("step_id", STORED["three"], script_key=HO))
    assert answers(run, HO, 2) == ["three", "three"]
    assert script.start_run().next_answer(HO) is None


def test_a_script_of_another_process_is_followed_from_the_first_run_on(script):
    other = Script()
    other.load(script.lines, RECORDING)
    assert [(key, text_of(match)) for key, match in other.log] == list(ANSWERS)
    assert answers(other.start_run(), HI, 3) == ["one", "two", "two"]
