"""A key may be given by its beginning, as long as that is the beginning of no other."""

import pytest

from offbook.errors import InputError
from offbook.recording.key_choice import chosen_key, short_key

FIRST, SECOND = "19284883515f" + "a" * 52, "19284883515f" + "b" * 52
KEYS = ["greet", "greet_again", FIRST, SECOND, "_tools.get"]


def refused(given, keys=KEYS):
    with pytest.raises(InputError) as caught:
        chosen_key(given, keys, source="run.json")
    return caught.value


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("greet", "greet"),
        ("greet_", "greet_again"),
        (FIRST, FIRST),
        (FIRST[:59], FIRST),
        (SECOND[:13], SECOND),
        (SECOND[:13] + "…", SECOND),
        ("_t", "_tools.get"),
    ],
)
def test_a_key_or_the_beginning_of_one_is_enough(given, key):
    assert chosen_key(given, KEYS, source="run.json") == key


def test_what_a_table_shows_can_be_given():
    assert chosen_key(short_key(FIRST), [FIRST, "greet"], source="run.json") == FIRST
    assert short_key("greet") == "greet"


def test_the_beginning_of_several_is_told_with_what_tells_them_apart():
    error = refused("1928")
    assert str(error).startswith("run.json: 2 keys begin with '1928'")
    assert error.hint == f"give more of one: {FIRST[:13]}, {SECOND[:13]}"


@pytest.mark.parametrize("given", ["gret", "", "…", FIRST + "0"])
def test_what_is_no_beginning_is_told_what_can_be_given(given):
    error = refused(given)
    assert error.hint == f"keys: greet, greet_again, {FIRST[:13]}, {SECOND[:13]}, _tools.get"
    for named in error.hint.removeprefix("keys: ").split(", "):
        assert chosen_key(named, KEYS, source="run.json")


def test_of_many_keys_the_first_are_told():
    assert refused("x", [str(number) for number in range(99)]).hint.endswith("10, 11, …")
    assert refused("x", []).hint == "keys: none"
