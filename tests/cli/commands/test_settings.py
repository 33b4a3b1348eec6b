"""offbook settings, `-o`, and the options that the command line no longer has."""

import json

import pytest

from offbook.cli.app import MainGroup
from offbook.config.file import AGENT_KINDS, JudgeConfig, RunConfig, UserConfig
from offbook.config.sections import KEYS
from offbook.recording.redact.redactor import RedactionRules
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
    assert (
        "  deadline = 90.0  (number, by default 20 for each answer that a program waits for, 3600 on the virtual" in out
    )
    assert f"clock; set in {config})\n      The time limit of a run" in out
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
        ("", ["recrod"], "there is no section or option 'recrod'\n  hint: did you mean 'record'?"),
        ("[serve]\nprot = 1\n", [], ":2: serve.prot: unknown key 'prot'\n  hint: did you mean 'port'?"),
        ("[tool.refund]\n", [], ":1: unknown section 'tool'\n  hint: did you mean 'tools'?"),
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
    assert len(options) <= LIMITS[name]
    monkeypatch.setenv("COLUMNS", "80")
    assert len(run(name, "--help")[1].splitlines()) <= 90


@pytest.mark.parametrize("name", LIMITS)
def test_every_option_that_has_left_the_command_line_says_where_it_is(run, name):
    kind = MainGroup.table[name].load(name).callback.options_kind
    for setting in settings_of(kind).values():
        if not setting.flags:
            flag = (setting.option.was.split() or [f"--{setting.key.replace('_', '-')}"])[0]
            code, _, err = run(name, flag, "7", "--", "true")
            assert (code, f"there is no flag {flag}\n" in err) == (2, True), err
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
    assert "no result of find, pay is recorded" in run(*run_it)[2]
    write("offbook.toml", "[tools.find]\nread_only = true\n")
    assert "no result of pay is recorded" in run(*run_it)[2]


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
    assert "offbook.toml:1: tools.refund: a tool that only reads has no effect" in err


@pytest.mark.parametrize("command", [["recording", "show", "run.json"], ["run", "flow.yaml"], ["exec", "--", "true"]])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[judge]\nmodle = 'x'\n", "offbook.toml:2: judge.modle: unknown key 'modle'\n  hint: did you mean 'model'?"),
        ("[agents.a]\nhandlr = 'x:y'\n", "offbook.toml:2: agents.a.handlr: unknown key 'handlr'\n  hint: did you mean"),
        ("[explore]\nfail_on = ['hng']\n", "offbook.toml:2: explore.fail_on: there is no verdict 'hng'"),
        ("[redaction]\nfeilds = []\n", "offbook.toml:2: redaction.feilds: unknown key 'feilds'"),
    ],
)
def test_every_command_refuses_an_unknown_key_of_the_config_with_its_line(run, write, command, text, reason):
    write("offbook.toml", text)
    code, _, err = run(*command)
    assert (code, reason in err) == (2, True), err


def test_the_keys_that_commands_know_are_those_of_the_sections():
    agent = {field for kind in AGENT_KINDS.values() for field in kind.model_fields}
    assert {name: set(keys) for name, keys in KEYS.items()} == {
        "agent": agent | {"name"},
        "agents": agent,
        "user": set(UserConfig.model_fields),
        "judge": set(JudgeConfig.model_fields),
        "run": set(RunConfig.model_fields),
        "redaction": set(RedactionRules.__struct_fields__),
    }


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        (["exec", "--deadline", "3"], "there is no flag --deadline\n  hint: use -o exec.time_limit=3"),
        (["exec", "-o", "explore.deadline=3"], "no option 'explore.deadline'\n  hint: use -o exec.time_limit=3"),
        (["exec", "--crash"], "there is no flag --crash\n  hint: it is an option of offbook explore: --crash"),
        (["exec", "-o", "budget=3"], "no option 'budget'\n  hint: it is an option of offbook explore: --budget"),
        (["explore", "-o", "json=true"], "-o json=true: it is a flag\n  hint: give --json"),
        (["explore", "-o", "fail_on=hng"], "-o fail_on=hng: there is no verdict 'hng'\n  hint: did you mean 'hung'?"),
        (
            ["explore", "--fail-on", ""],
            "--fail-on: expected a name, got an empty one\n  hint: verdicts: bad-retry, believed-a-lie",
        ),
        (["explore", "-o", "on_divergence=x"], "unknown value 'x'\n  hint: one of: default, explore, live, stop"),
        (["explore", "--fault", "call=1: timeout", "--faults", "timeout"], "--faults cannot be used with --fault"),
        (["explore", "--fault", "call=1: timeout", "--only", "0001"], "--only cannot be used with --fault"),
    ],
)
def test_an_option_that_does_not_fit_says_what_to_type(run, write, typed, error):
    write("run.json", flows.recording(flows.ANSWERS))
    command, *options = typed
    code, _, err = run(command, "--replay", "run.json", *options, "--", "true")
    assert (code, error in err) == (2, True), err


@pytest.mark.parametrize(
    ("name", "line"), [("deadline", "  deadline = 20 for each answer"), ("effect", "  effect = f")]
)
def test_one_option_can_be_looked_up(run, name, line):
    code, out, _ = run("settings", name)
    assert code == 0
    assert [row[: len(line)] for row in out.splitlines() if row.startswith("  ") and row[2] != " "] == [line]
