"""Side effects: what tools report of them."""

import pytest

from offbook.errors import InputError
from offbook.tools.effects import (
    Effect,
    collect_effects,
    count_collected,
    effect,
    parse_effects,
    reached,
    read_effect_lines,
    split_reached,
)

PAID = Effect(tool="pay", arguments={"order": 42, "amount": 30})


def test_an_effect_reads_like_a_call():
    assert str(PAID) == "pay(order=42, amount=30)"
    assert str(Effect(tool="send", arguments={"text": "x" * 100})) == f'send(text="{"x" * 38}…)'


class Unspeakable:
    def __str__(self):
        raise RuntimeError


def nested(depth):
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        ({42: 1, "b": [None]}, {"42": 1, "b": [None]}),
        (2**70, "1180591620717411303424"),
        ("\ud800", "?"),
        ({"c", "a", "d", "b"}, ["a", "b", "c", "d"]),
        ({"tags": frozenset({2, 1})}, {"tags": [1, 2]}),
        (Effect(tool="look"), {"tool": "look", "arguments": {}, "outcome": "done", "source": "observed"}),
        (object(), "<object object>"),
        (Unspeakable(), "<Unspeakable that cannot be shown>"),
        (nested(500), str(nested(500))),
    ],
)
def test_whatever_a_program_reports_is_json_and_does_not_harm_it(value, reported, tmp_path, monkeypatch):
    with collect_effects() as here:
        effect("pay", amount=value)
    monkeypatch.setenv("OFFBOOK_EFFECTS", str(tmp_path / "effects.jsonl"))
    effect("pay", amount=value)
    there = read_effect_lines((tmp_path / "effects.jsonl").read_bytes(), source="OFFBOOK_EFFECTS")
    assert here == there == [Effect(tool="pay", arguments={"amount": reported})]


def test_a_collection_goes_on_after_one_inside_it():
    with collect_effects() as outer:
        with collect_effects():
            pass
        effect("pay")
    assert outer == [Effect(tool="pay")]


def test_the_first_of_several_unknown_fields_is_named():
    fields = ", ".join(f'"{name}": 1' for name in ("output", "outcomes", "arguement", "tols", "argument"))
    with pytest.raises(InputError, match="unknown field 'outcomes'"):
        parse_effects(f'{{"tool": "pay", {fields}}}'.encode(), source="s")


def test_a_place_that_was_reached_is_no_effect():
    with collect_effects() as reports:
        effect("pay")
        reached("human_review")
        assert count_collected() == 1
    assert split_reached(reports) == ([Effect(tool="pay")], ["human_review"])
