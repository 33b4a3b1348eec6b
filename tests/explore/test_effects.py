"""The net effects of a run, and how they differ from those of another."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.effects import EffectDifference, compare_effects, net_effects, undone_effects
from offbook.tools.effects import Effect, ToolDeclaration

PAID = Effect(tool="pay", arguments={"order": 42, "amount": 30})
BOOKED = Effect(tool="book_hotel", arguments={"room": 7})
CANCELLED = Effect(tool="cancel_hotel", arguments={"room": 7})
UNDOES = {"cancel_hotel": ToolDeclaration(side_effect=True, undoes="book_hotel")}
EFFECTS = st.lists(st.sampled_from([PAID, BOOKED, CANCELLED]), max_size=6)


def test_the_same_effects_in_another_order_do_not_differ():
    difference = compare_effects([BOOKED, PAID], [PAID, BOOKED], {})
    assert difference.repeated == ()
    assert difference.other == ()
    assert difference.missing == ()


def test_an_effect_that_happened_once_more_is_repeated():
    difference = compare_effects([PAID, PAID], [PAID], {})
    assert difference.repeated == ((PAID, 2, 1),)
    assert not difference.other


def test_an_effect_with_other_arguments_is_another_and_leaves_one_missing():
    other = Effect(tool="pay", arguments={"order": 43, "amount": 30})
    difference = compare_effects([other], [PAID], {})
    assert difference.other == (other,)
    assert difference.missing == (PAID,)


def test_what_was_undone_did_not_happen():
    assert net_effects([BOOKED, CANCELLED], UNDOES) == []
    assert compare_effects([BOOKED, CANCELLED, BOOKED], [BOOKED], UNDOES).repeated == ()


def test_undoing_twice_is_an_effect_of_its_own():
    assert net_effects([BOOKED, CANCELLED, CANCELLED], UNDOES) == [CANCELLED]


def test_to_undo_a_call_that_failed_is_no_effect_but_to_undo_it_twice_is():
    failed, refused = (
        Effect(tool="book_hotel", arguments={"room": 7}, outcome=outcome) for outcome in ("failed", "refused")
    )
    assert net_effects([failed, CANCELLED], UNDOES) == []
    assert net_effects([failed, CANCELLED, CANCELLED], UNDOES) == [CANCELLED]
    assert net_effects([refused, CANCELLED], UNDOES) == [CANCELLED]
    assert undone_effects([failed, CANCELLED], UNDOES) == []
    assert undone_effects([BOOKED, CANCELLED], UNDOES) == [(BOOKED, CANCELLED)]


def test_an_undo_takes_back_the_effect_with_its_arguments():
    other = Effect(tool="book_hotel", arguments={"room": 8})
    assert net_effects([BOOKED, other, CANCELLED], UNDOES) == [other]


def test_a_repeated_idempotent_effect_happened_once():
    assert net_effects([PAID, PAID], {"pay": ToolDeclaration(side_effect=True, idempotent=True)}) == [PAID]


def test_an_idempotency_key_makes_calls_the_same_whatever_else_they_have():
    by_key = {"pay": ToolDeclaration(side_effect=True, idempotent="key")}
    first, again = (Effect(tool="pay", arguments={"key": "a", "try": number}) for number in (1, 2))
    assert net_effects([first, again, Effect(tool="pay", arguments={"key": "b"})], by_key)[0] == first
    assert len(net_effects([first, again, Effect(tool="pay", arguments={"key": "b"})], by_key)) == 2


def test_without_its_idempotency_key_a_repeated_call_is_repeated():
    by_key = {"pay": ToolDeclaration(side_effect=True, idempotent="kye")}
    assert net_effects([PAID, PAID], by_key) == [PAID, PAID]


def test_reading_refused_and_failed_calls_change_nothing():
    read = Effect(tool="find", arguments={})
    refused, failed = (Effect(tool="pay", arguments={}, outcome=outcome) for outcome in ("refused", "failed"))
    assert net_effects([read, refused, failed], {"find": ToolDeclaration(read_only=True)}) == []


def test_uuids_and_times_that_differ_in_every_run_are_no_difference():
    first, second = (
        Effect(tool="pay", arguments={"key": key, "at": at})
        for key, at in (
            ("0b9f7a52-2f5e-4c3e-9d6b-0f9c7a4b1d11", "2026-01-01T10:00:00Z"),
            ("7c1d0e90-9a53-4b52-8a1e-52a6f0d6f111", "2026-01-02 11:30:00"),
        )
    )
    assert not compare_effects([first], [second], {}).other
    assert compare_effects([first, first], [second], {}).repeated


@given(EFFECTS)
def test_a_run_does_not_differ_from_itself(effects):
    difference = compare_effects(effects, list(reversed(effects)), {})
    assert difference.repeated == ()
    assert difference.other == ()
    assert difference.missing == ()


@given(EFFECTS)
def test_one_more_effect_is_never_overlooked(effects):
    difference = compare_effects([*effects, PAID], effects, {})
    assert difference.other == (PAID,) or [each for each, _, _ in difference.repeated] == [PAID]


def test_an_idempotent_effect_that_was_undone_can_happen_again():
    declared = UNDOES | {"book_hotel": ToolDeclaration(side_effect=True, idempotent=True)}
    assert net_effects([BOOKED, CANCELLED, BOOKED], declared) == [BOOKED]


def test_an_undo_with_other_arguments_undoes_nothing():
    other = Effect(tool="cancel_hotel", arguments={"room": 99})
    assert net_effects([BOOKED, BOOKED, other], UNDOES) == [BOOKED, BOOKED, other]


def test_a_uuid_that_both_runs_have_tells_effects_apart():
    first, second = (
        Effect(tool="refund", arguments={"order": order})
        for order in ("0b9f7a52-2f5e-4c3e-9d6b-0f9c7a4b1d11", "7c1d0e90-9a53-4b52-8a1e-52a6f0d6f111")
    )
    difference = compare_effects([first, first], [first, second], {})
    assert difference.repeated == ((first, 2, 1),)
    assert difference.missing == (second,)


def test_a_time_that_the_model_asked_for_does_not_vary():
    wanted, other = (Effect(tool="call", arguments={"at": f"2026-01-01T{hour}:00"}) for hour in (10, 17))
    assert compare_effects([other], [wanted], {}).other == ()
    assert compare_effects([other], [wanted], {}, stable=["2026-01-01T10:00"]).other == (other,)


@pytest.mark.parametrize("key", ["{}-{}", "{}", "refund:{}"])
def test_a_key_that_is_random_in_every_run_is_the_same_effect_and_has_a_text_that_does_not_vary(key):
    ids = ["3f9c1a5be02d4471", "a1b2c3d4e5f60718"] if key == "{}" else [str(uuid4()), str(uuid4())]
    one, other = (Effect(tool="pay", arguments={"order": 42, "key": key.format(each, 7)}) for each in ids)
    assert compare_effects([other], [one], {}) == EffectDifference()
    ((repeated, times, expected),) = compare_effects([other, other], [one], {}).repeated
    assert times == 2
    assert expected == 1
    assert str(repeated) == f'pay(order=42, key="{key.format("…", 7)}")'


@pytest.mark.parametrize("number", ["4217000012345678", "deadbeefdeadbeef", "order-42-of-2026-again"])
def test_a_long_number_and_a_word_are_no_random_ids(number):
    wanted, other = (Effect(tool="pay", arguments={"card": card}) for card in (number, f"9{number[1:]}"))
    assert compare_effects([other], [wanted], {}).missing == (wanted,)
