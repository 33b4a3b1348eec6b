"""How things are put."""

import pytest

from offbook.text import (
    call_text,
    did_you_mean,
    did_you_mean_file,
    format_usd,
    ordinal,
    pluralize,
    printable,
    suggestion,
)


def test_a_count_comes_with_its_noun():
    assert [pluralize(1, "line"), pluralize(0, "line"), pluralize(2000, "entry", "entries")] == [
        "1 line",
        "0 lines",
        "2,000 entries",
    ]


@pytest.mark.parametrize(
    ("number", "said"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (1022, "1,022nd")],
)
def test_a_place_in_a_row_has_its_ending(number, said):
    assert ordinal(number) == said


def test_what_a_terminal_could_take_for_a_command_is_not_printed():
    assert printable("a\x1b[2J\nb") == "a [2J\nb"


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("fech", ["submit", "fetch"], "did you mean 'fetch'?"),
        ("FETCH", ["submit", "Fetch"], "did you mean 'Fetch'?"),
        ("pay", ["submit", "fetch"], "tools: fetch, submit"),
        ("pay", [], "tools: none"),
        (
            "pay",
            [f"t{number:02}" for number in range(21)],
            "tools: " + ", ".join(f"t{n:02}" for n in range(20)) + ", …",
        ),
    ],
)
def test_an_unknown_name_gets_the_closest_or_all_that_are_known(name, known, hint):
    assert did_you_mean(name, known, kind="tools") == hint


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("run.json", "did you mean 'runs.json'? record it"),
        ("flow.yml", "did you mean 'flow.yaml'? record it"),
        ("runs.jsn", "did you mean 'runs.json'? record it"),
        ("hidden.json", "did you mean '.hidden.json'? record it"),
        ("today.json", ".json files: a.json, b.json, c.json, d.json, e.json, …; record it"),
        ("more/rnu.json", "did you mean 'more/run.json'? record it"),
        ("more/today.json", ".json files in more: run.json; record it"),
        ("nowhere/run.json", "there is no folder 'nowhere'; record it"),
        ("moer/run.json", "did you mean 'more/run.json'? record it"),
        ("agent.py", "record it"),
        ("runs.json", "record it"),
        ("a\0b", "record it"),
        ("x" * 5000, "record it"),
    ],
)
def test_a_file_that_is_not_there_gets_the_closest_name_or_the_files_of_its_kind(path, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    names = ("flow.yaml", ".hidden.json", "more/run.json", "runs.golden", "runs.json")
    for name in (*names, *(f"{letter}.json" for letter in "abcde")):
        (tmp_path / name).touch()
    assert did_you_mean_file(path, "record it") == hint


def test_nothing_is_listed_without_a_name_for_it():
    assert did_you_mean("pay", ["submit"]) == ""


@pytest.mark.parametrize(
    ("name", "hint"), [("fech", "did you mean 'fetch'? tools: fetch, submit"), ("pay", "tools: fetch, submit")]
)
def test_a_suggestion_lists_all_that_are_known_beside_the_closest(name, hint):
    assert suggestion(name, ["submit", "fetch"], kind="tools") == hint


@pytest.mark.parametrize(
    ("cost_usd", "said"), [(0, ""), (0.0123, "0.0123"), (1.5, "1.5000"), (0.000012, "0.000012"), (-0.00002, "-0.00002")]
)
def test_a_cost_has_four_digits_or_as_many_as_say_something(cost_usd, said):
    assert format_usd(cost_usd) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "book()"),
        ({"order": 42}, "book(42)"),
        ({"city": "Oslo", "nights": 2}, "book(city=Oslo, nights=2)"),
        ({"text": "two\n lines"}, "book(two lines)"),
        ({"items": [1, {"a": None}]}, 'book([1,{"a":null}])'),
        ({"text": "x" * 99}, f"book({'x' * 53}…)"),
    ],
)
def test_a_call_is_said_by_its_values_and_with_names_if_there_are_several(arguments, said):
    assert call_text("book", arguments) == said
    assert len(said) <= 60
