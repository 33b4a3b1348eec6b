"""The state that a command line gives to a run."""

import pytest

from offbook.cli.given_state import given_state
from offbook.errors import InputError

DECLARED = {"name": "Ada", "count": 0, "user": {"city": "Oslo", "tags": ["a"]}, "none": None}


def state(*settings, file=None):
    return given_state(DECLARED, settings=list(settings), file=file)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("null", None),
        ('"3"', "3"),
        ('["a", 1]', ["a", 1]),
        ("Ada", "Ada"),
        ("", ""),
        ("a=b", "a=b"),
        ("[broken", "[broken"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("ø\n", "ø\n"),
    ],
)
def test_a_value_is_json_where_it_can_be_and_else_text(text, value):
    assert state(f"none={text}") == {"none": value}


@pytest.mark.parametrize("text", ["5", "true", "null", '["a", 1]', "Ada"])
def test_a_value_stays_text_where_a_text_is_declared(text):
    assert state(f"name={text}") == {"name": text}
    assert state(f"user.city={text}")["user"]["city"] == text


def test_a_text_in_quotes_is_the_text():
    assert state('name="5"') == {"name": "5"}


def test_a_dotted_key_is_set_inside_what_is_declared_which_stays_as_it_was():
    assert state("user.city=Rome", "user.home.street=Via") == {
        "user": {"city": "Rome", "tags": ["a"], "home": {"street": "Via"}}
    }
    assert DECLARED["user"]["city"] == "Oslo"


def test_a_setting_counts_more_than_the_file_and_the_last_one_most(tmp_path):
    file = tmp_path / "state.json"
    file.write_text('{"name": "Eve", "user": {"city": "Bonn"}}')
    assert state("user.age=3", "count=1", "count=2", file=str(file)) == {
        "name": "Eve",
        "user": {"city": "Bonn", "age": 3},
        "count": 2,
    }


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nam=Eve", "did you mean 'name'?"),
        ("xyz.a=1", "declared: count, name, none, user"),
        ("name", "expected key=value"),
        ("=1", "expected key=value"),
        ("user..city=1", "expected key=value"),
        ("name.first=Eve", 'there is "Ada" where a mapping is expected'),
        ("none.a=1", "there is null"),
        ("user.tags.0=b", 'there is ["a"]'),
        ("user.city.street=b", 'there is "Oslo"'),
    ],
)
def test_what_cannot_be_set_is_bad_input(setting, said):
    with pytest.raises(InputError) as caught:
        state(setting)
    assert said in str(caught.value)
    assert caught.value.source.startswith("--set")


@pytest.mark.parametrize(
    ("text", "said"), [("{", "no JSON"), ("[]", "expected a JSON object"), ('{"nam": 1}', "did you mean 'name'?")]
)
def test_a_file_that_is_no_state_is_bad_input(tmp_path, text, said):
    file = tmp_path / "state.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        state(file=str(file))
    assert said in str(caught.value)
    assert caught.value.source == str(file)


def test_a_file_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        state(file=str(tmp_path / "state.json"))


def test_commands_take_settings_and_a_file(run, greet, write):
    write("state.json", '{"user": {"city": "Rome"}}')
    options = ["--state", "state.json", "--set", "name=Eve"]
    code, out, _ = run("run", greet, "--mock-responses", "run.json", "--json", *options)
    assert code == 0
    assert '"name":"Eve","user":{"city":"Rome"}' in out
    code, _, err = run("replay", greet, "--recording", "run.json", "--set", "nmae=Eve")
    assert code == 2
    assert "did you mean 'name'?" in err
