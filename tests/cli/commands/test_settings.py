"""offbook settings, `-o`, and the options that the command line no longer has."""

import json

import pytest

from offbook.cli.app import MainGroup
from offbook.settings import settings_of
from tests.cli import flows
from tests.cli.commands.test_exec import ASK

CONFIG = """
[explore]
deadline = 90
[record]
mode = "new"
upstreams = ["openai=http://127.0.0.1:9/v1"]
[exec]
lenient = true
allow_no_calls = true
[tools.refund]
effect = true
idempotent = "order"
"""
LIMITS = {"explore": 20, "exec": 18, "serve": 18}


def test_options_are_listed_with_their_values_and_where_those_come_from(run, write):
    config = write("offbook.toml", CONFIG)
    code, out, _ = run("settings")
    assert code == 0
    assert f"  deadline = 90.0  (number, by default none; set in {config})\n      Seconds that a run may take" in out
    assert '  on_divergence = "explore"  (explore | stop | default | live)' in out
    assert f'  refund: effect = true, idempotent = "order"; set in {config}' in out
    assert [line for line in out.splitlines() if line.startswith("[")] == [
        *("[explore]", "[record]", "[exec]", "[serve]", "[tools.NAME]"),
    ]


def test_options_are_json_for_machines(run, write):
    config = write("offbook.toml", CONFIG)
    document = json.loads(run("settings", "record", "--json")[1])
    mode = next(each for each in document["settings"] if each["key"] == "mode")
    assert mode == {
        "section": "record",
        "key": "mode",
        "type": "append | once | new | all | fresh",
        "default": None,
        "value": "new",
        "origin": str(config),
        "flag": "--record-mode",
        "help": mode["help"],
    }
    assert {each["origin"] for each in document["settings"]} == {str(config), "default"}
    assert json.loads(run("settings", "--json")[1])["tools"] == {"refund": {"effect": True, "idempotent": "order"}}


@pytest.mark.parametrize(
    ("text", "typed", "reason"),
    [
        ("", ["recrod"], "there is no section 'recrod'\n  hint: did you mean 'record'?"),
        ("[serve]\nprot = 1\n", [], "serve.prot: unknown key 'prot'\n  hint: did you mean 'port'?"),
        ("[tool.refund]\n", [], "unknown section 'tool'\n  hint: did you mean 'tools'?"),
    ],
)
def test_what_is_not_there_is_bad_input_with_a_suggestion(run, write, text, typed, reason):
    write("offbook.toml", text)
    code, _, err = run("settings", *typed)
    assert (code, reason in err) == (2, True), err


@pytest.mark.parametrize("name", LIMITS)
def test_a_command_has_as_many_options_as_one_takes_in_and_help_of_two_screens(run, monkeypatch, name):
    parameters = MainGroup.table[name].load(name).params
    options = [each for each in parameters if each.param_type_name == "option"]
    assert len(options) + 1 <= LIMITS[name]  # --help
    monkeypatch.setenv("COLUMNS", "80")
    assert len(run(name, "--help")[1].splitlines()) <= 90


@pytest.mark.parametrize("name", LIMITS)
def test_every_option_that_has_left_the_command_line_says_where_it_is(run, name):
    kind = MainGroup.table[name].load(name).callback.options_kind
    for setting in settings_of(kind).values():
        if not setting.flags:
            flag = (setting.option.was.split() or [f"--{setting.key.replace('_', '-')}"])[0]
            code, _, err = run(name, flag, "7", "--", "true")
            assert (code, f"{flag} moved" in err) == (2, True), err
            assert f"-o {setting.place}={'true' if setting.type is bool else '7'}" in err


def test_the_config_sets_what_the_command_line_does_not(run, write):
    write("run.json", flows.recording(flows.ANSWERS))
    write("offbook.toml", '[exec]\nlenient = true\ndefault_response = "Well."\n')
    assert run("exec", "--replay", "run.json", "--", *ASK, "Else")[0] == 0
    assert run("exec", "--replay", "run.json", "-o", "lenient=false", "-o", "time_limit=0", "--", *ASK, "Else")[0] == 2


def test_a_config_does_not_contradict_a_run(run, write):
    write("run.json", flows.recording(flows.ANSWERS))
    write("offbook.toml", CONFIG + "[serve]\nlenient = true\n")
    assert run("exec", "--replay", "run.json", "--quiet", "--", "true") == (0, "", "")
    assert run("exec", "--record", "new.json", "--quiet", "--", "true") == (0, "", "")
    code, _, err = run("exec", "--record", "new.json", "-o", "lenient=true", "--", "true")
    assert code == 2
    assert "--lenient requires --replay" in err


def test_tools_that_only_read_are_not_said_to_run_for_real(run, write):
    asks = {"content": "", "tool_calls": [{"id": "a", "name": name, "arguments": {}} for name in ("find", "pay")]}
    write("run.json", json.dumps({"_version": 2, "any": [{**asks, "tool_calls": asks["tool_calls"]}]}))
    run_it = ("exec", "--replay", "run.json", "-o", "allow_no_calls=true", "--", "true")
    assert "the recording asks for find, pay" in run(*run_it)[2]
    write("offbook.toml", "[tools.find]\nread_only = true\n")
    assert "the recording asks for pay\n" in run(*run_it)[2]


def test_a_tool_that_only_reads_has_no_effect_wherever_both_are_said(run, write):
    write("offbook.toml", "[tools.refund]\neffect = true\n")
    write("run.json", flows.recording({"first": {"content": "Hi"}}))
    options = ("explore", "--replay", "run.json", "-o", "tools.refund.read_only=true")
    code, _, err = run(*options, "--", "true")
    assert code == 2
    assert "tools.refund: a tool that only reads has no effect" in err
    write("offbook.toml", "[tools.refund]\neffect = true\nread_only = true\n")
    code, _, err = run("settings")
    assert code == 2
    assert "offbook.toml: tools.refund: a tool that only reads has no effect" in err
