"""What evidence says is read as it is meant, and held against a ledger."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.explore.zoo.evidence import Claim, claims, contradictions

PAY_7, PAY_8 = ("pay", '{"bill": 7}'), ("pay", '{"bill": 8}')
WRITE = ("desk.mail", '{"about": 42, "to": "a; b and c(1) ran"}')


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ("pay(bill=7) had run", [Claim(PAY_7, "ran")]),
        ("pay(bill=7) ran; without the fault it does not", [Claim(PAY_7, "ran")]),
        ("pay(bill=7) ran once instead of 2 times", [Claim(PAY_7, "ran times", 1)]),
        ("GaveUp: no; pay(bill=7), pay(bill=8) had run", [Claim(PAY_7, "ran"), Claim(PAY_8, "ran")]),
        (
            "pay(bill=7) and pay(bill=8) ran 2 times instead of once",
            [Claim(each, "ran times", 2) for each in (PAY_7, PAY_8)],
        ),
        ('desk.mail(to="a; b and c(1) ran", about=42) did not run, and the run ended', [Claim(WRITE, "did not run")]),
        ("pay(bill=7) had run 3 times", [Claim(PAY_7, "ran times", 3)]),
        ("pay(bill=7) was asked for, and its result sent 2 times", []),
        ("pay(bill=7) ran and was undone by pay(bill=8), and", [Claim(PAY_7, "was undone")]),
        ("pay(bill=7) stands, and the run gave up without naming that", [Claim(PAY_7, "stands")]),
        ("pay(bill=7) may have run", []),
        ("pay(bill=…) had run; pay(key=1", []),
        ("exit 3: f(x) failed; the result is the same", []),
    ],
)
def test_what_evidence_says_about_calls_is_read(evidence, said):
    assert list(claims(evidence)) == said


@pytest.mark.parametrize(
    ("evidence", "done", "is_true"),
    [
        ("pay(bill=7) ran 2 times instead of once", [PAY_7, PAY_7], True),
        ("pay(bill=7) ran 2 times instead of once", [PAY_7], False),
        ("pay(bill=7) had run", [PAY_7], True),
        ("pay(bill=7) had run", [PAY_8], False),
        ("pay(bill=7) stands, and the run gave up", [PAY_7], False),
        ("pay(bill=7) ran and was undone by free(bill=7), and", [PAY_7], True),
        ("pay(bill=7) ran and was undone by free(bill=7), and", [], False),
        ("pay(bill=7) did not run, and the run ended as if it had", [], True),
        ("pay(bill=7) did not run, and the run ended as if it had", [PAY_7], False),
    ],
)
def test_a_sentence_that_the_ledger_contradicts_is_told(evidence, done, is_true):
    told = list(contradictions(evidence, Counter(done), Counter([PAY_7]), left=Counter(), known={"pay"}))
    assert (told == []) == is_true


def test_nothing_is_said_about_tools_without_a_ledger():
    assert list(contradictions("look(at=7) had run", Counter(), Counter(), left=Counter(), known={"pay"})) == []
