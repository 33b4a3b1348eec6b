"""Options: declared once as fields, and set by flags, by assignments, by the config or by default."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from msgspec import Meta, Struct

from offbook.errors import InputError
from offbook.explore.settings import ExploreArguments, ExploreSettings
from offbook.settings import (
    Option,
    ProjectFile,
    ToolSettings,
    arguments_of,
    assigned,
    configured,
    configured_tools,
    find_project,
    load_project,
    option_hint,
    resolve,
    settings_of,
    unknown_tools,
)
from offbook.wire.settings import ExecArguments, ServeArguments


class Kitchen(Struct, frozen=True, kw_only=True):
    """Some options."""

    section: ClassVar[str] = "explore"

    heat: Annotated[Annotated[float, Meta(ge=1)] | None, Option("How hot.", metavar="DEGREES")] = None
    mode: Annotated[Literal["bake", "fry"], Option("How.", "--mode")] = "bake"
    guests: Annotated[tuple[str, ...], Option("Who.", "--guests", has_names=True)] = ()
    books: Annotated[tuple[str, ...], Option("Which.", was="--book", is_path=True)] = ()
    quick: Annotated[bool, Option("Hurry.", "--quick")] = False
    seats: Annotated[int | str, Option("How many.")] = "all"
    tonight: Annotated[bool, Option("Now.", "--tonight", is_per_run=True)] = False
    tools: dict[str, ToolSettings] = {}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write a config into the working directory, and load it."""
    monkeypatch.chdir(tmp_path)

    def project(text, name="offbook.toml"):
        Path(name).write_text(text)
        return load_project(name)

    return project


def test_a_flag_beats_an_assignment_which_beats_the_config_which_beats_the_default(project):
    config = project('[explore]\nmode = "fry"\nheat = 5\nseats = 4\n')
    options = resolve(Kitchen, {"mode": "bake"}, ["heat=6", "mode=fry"], project=config)
    assert options.mode == "bake"
    assert options.heat == 6.0
    assert options.seats == 4
    assert not options.quick


@pytest.mark.parametrize(
    ("texts", "field", "value"),
    [
        (["heat=90"], "heat", 90.0),
        (["explore.heat=90"], "heat", 90.0),
        (["guests=Ada, Eve", "guests=Bob"], "guests", ("Ada", "Eve", "Bob")),
        (['guests=["A,B"]'], "guests", ("A", "B")),
        (['books=["a,b.txt"]'], "books", ("a,b.txt",)),
        (["quick=true"], "quick", True),
        (["seats=12"], "seats", 12),
        (["seats=some"], "seats", "some"),
        (["mode=bake", "mode=fry"], "mode", "fry"),
    ],
)
def test_an_assignment_is_read_by_the_type_of_its_option(texts, field, value):
    assert assigned(Kitchen, texts) == {field: value}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("heat", "-o: expected KEY=VALUE, got 'heat'"),
        ("heet=3", "there is no option 'heet'\n  hint: did you mean 'heat'?"),
        ("exec.heat=3", "there is no option 'exec.heat'"),
        ("heat=hot", "-o heat=hot: expected a number, got 'hot'"),
        ("heat=0", "-o heat=0: expected a number of at least 1, got 0"),
        ("heat=nan", "-o heat=nan: expected a number, got nan"),
        ("mode=frie", "-o mode=frie: unknown value 'frie'\n  hint: one of: bake, fry"),
        ("quick=yes", "expected true or false, got 'yes'"),
        ("tools.pan.efect=true", "tools.pan.efect: unknown key 'efect'\n  hint: did you mean 'effect'?"),
    ],
)
def test_a_wrong_assignment_is_refused_with_what_was_meant(text, reason):
    with pytest.raises(InputError) as refused:
        assigned(Kitchen, [text])
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[exlpore]\n", "offbook.toml:1: unknown section 'exlpore'\n  hint: did you mean 'explore'?"),
        ("explore = 3\n", "offbook.toml:1: explore: expected a table"),
        ("[explore]\nheet = 3\n", "offbook.toml:2: explore.heet: unknown key 'heet'\n  hint: did you mean 'heat'?"),
        ("[explore]\nheat = 'x'\n", "offbook.toml:2: explore.heat: expected a number, got 'x'"),
        ("[explore]\nguests = 'Ada'\n", "offbook.toml:2: explore.guests: expected a list, got 'Ada'"),
        ("[explore]\ntonight = true\n", "explore.tonight: it belongs to one run\n  hint: give --tonight on the comm"),
        ("[tools.pan]\nefect = true\n", "tools.pan.efect: unknown key 'efect'\n  hint: did you mean 'effect'?"),
        ("[tools.pan]\neffect = 3\n", "offbook.toml:2: tools.pan.effect: expected true or false, got 3"),
        ("[tools]\npan = 3\n", "offbook.toml:2: tools.pan: expected a table"),
    ],
)
def test_a_wrong_config_is_refused_with_its_file_and_place(project, text, reason):
    with pytest.raises(InputError) as refused:
        resolve(Kitchen, {}, project=project(text))
    assert reason in str(refused.value)


def test_what_a_tool_does_has_one_place_in_the_config(project):
    with pytest.raises(InputError, match=r"write \[tools.NAME\] read_only"):
        configured(ExploreArguments, project('[explore]\nread_only = ["find"]\n'))


def test_paths_of_a_config_are_relative_to_its_folder(project, tmp_path, monkeypatch):
    project('[explore]\nbooks = ["a.txt", "b/", "redis://host/0", "/c.txt"]\n')
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    found = configured(Kitchen, find_project())
    assert found == {"books": ("../../a.txt", "../../b/", "redis://host/0", "/c.txt")}


def test_the_nearest_config_counts_also_in_pyproject(project, tmp_path):
    project("[explore]\nheat = 1\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.offbook.tools.pan]\neffect = true\n")
    (tmp_path / "a" / "b" / "pyproject.toml").write_text("[tool.other]\nabout = 'not offbook'\n")
    found = find_project(tmp_path / "a" / "b")
    assert found.source == str(tmp_path / "a" / "pyproject.toml")
    assert configured_tools(found) == {"pan": ToolSettings(effect=True)}


def test_tools_of_assignments_are_merged_with_those_of_the_config(project):
    config = project("[tools.pan]\neffect = true\n[tools.pot]\nread_only = true\n")
    options = resolve(Kitchen, {}, ["tools.pan.idempotent=id"], project=config)
    assert options.tools == {"pan": ToolSettings(effect=True, idempotent="id"), "pot": ToolSettings(read_only=True)}


@pytest.mark.parametrize(
    "options",
    [
        Kitchen(),
        Kitchen(heat=2.5, mode="fry", guests=("Ada", "Eve"), books=("a,b", "c"), quick=True, seats=3),
        Kitchen(tools={"my.pan": ToolSettings(effect=True, idempotent="id", undoes="pot")}),
    ],
)
def test_the_words_for_options_stand_for_the_same_options(options):
    words = arguments_of(options)
    flags, texts, given = {name: each for name, each in settings_of(Kitchen).items() if each.flags}, [], {}
    while words:
        word = words.pop(0)
        field = next((name for name, each in flags.items() if word in each.flags), None)
        if field is None:
            assert word == "-o"
            texts.append(words.pop(0))
        else:
            value = True if flags[field].type is bool else words.pop(0)
            given[field] = [value] if flags[field].is_list else value
    assert resolve(Kitchen, given, texts, project=None) == options


@pytest.mark.parametrize(
    ("flag", "value", "hint"),
    [
        ("--heat", "90", "use -o explore.heat=90, or [explore] heat = 90 in offbook.toml"),
        ("--heat", "", 'use -o explore.heat=DEGREES, or [explore] heat = "DEGREES" in offbook.toml'),
        ("--book", "my book", "use -o 'explore.books=my book', or [explore] books = [\"my book\"] in offbook.toml"),
        ("--mode", "fry", ""),
        ("--other", "x", ""),
    ],
)
def test_a_flag_that_is_gone_says_what_to_type(flag, value, hint):
    assert option_hint(Kitchen, flag, value) == hint


@pytest.mark.parametrize("kind", [ExploreArguments, ExecArguments, ServeArguments])
def test_every_option_has_help_and_a_type_that_can_be_named(kind):
    for setting in settings_of(kind).values():
        assert setting.option.help.endswith((".", ".", "…"))
        assert setting.type_name


def test_settings_of_a_regression_keep_what_the_config_declares():
    settings = ExploreSettings(side_effects=("pay",), tools={"find": ToolSettings(read_only=True, optional=True)})
    assert {name: each.has_effect for name, each in settings.declarations.items()} == {"pay": True, "find": False}
    assert settings.optional_names == {"find"}
    assert settings.read_only_names == {"find"}
    with pytest.raises(InputError, match="read_only contradicts side_effect"):
        _ = ExploreSettings(side_effects=("find",), tools=settings.tools).declarations


@pytest.mark.parametrize(
    ("flag", "value", "hint"),
    [
        ("--effect", "pay", "use -o tools.pay.effect=true, or [tools.pay] effect = true in offbook.toml"),
        ("--side-effects", "pay", "use -o explore.side_effects=pay, or [tools.pay] effect = true in offbook.toml"),
        (
            "--idempotent",
            "pay:id",
            'use -o explore.idempotent=pay:id, or [tools.pay] idempotent = "id" in offbook.toml',
        ),
        ("--crash", "", ""),
    ],
)
def test_a_flag_about_a_tool_says_what_to_write_about_the_tool(flag, value, hint):
    assert option_hint(ExploreArguments, flag, value) == hint


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("[a]\n\n# x\n[explore]\nheat = 3\n", ("explore", "heat"), 5),
        ("[explore]\nbooks = [\n  'x',\n]\nheat = 3\n", ("explore", "books"), 2),
        ("[explore]\r\nbooks = '''\r\nx'''\r\nheat = 3", ("explore", "heat"), 4),
        ("explore.heat = 3\n", ("explore", "heat"), 1),
    ],
)
def test_a_key_of_a_config_is_found_by_its_line(tmp_path, text, path, line):
    file = tmp_path / "offbook.toml"
    file.write_bytes(text.encode())
    assert ProjectFile(str(file), tmp_path, {}).line_of(*path) == f"{file}:{line}"


def test_a_mistyped_tool_is_noted_and_one_of_another_agent_is_not():
    tools = {"refnd": ToolSettings(effect=True), "send_mail": ToolSettings(), "cancel": ToolSettings(undoes="refnud")}
    assert list(unknown_tools(tools, {"refund", "cancel"})) == [
        "tools.refnd: the run has no tool 'refnd'; did you mean 'refund'?",
        "tools.cancel.undoes: the run has no tool 'refnud'; did you mean 'refund'?",
    ]
    assert list(unknown_tools(tools, ())) == []
