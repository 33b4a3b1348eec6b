"""Known programs: what a command is recognised as, and what its preset changes."""

import pytest

from offbook.errors import InputError
from offbook.presets.preset import (
    UNKNOWN,
    KnownProgram,
    Preset,
    built_in_presets,
    known_program,
    presets_of,
    with_preset,
)
from offbook.settings import ToolSettings, load_project
from offbook.wire.settings import ExecArguments

PRESETS = built_in_presets()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("claude -p hello", "claude-code"),
        ("/opt/bin/claude -p hello", "claude-code"),
        ("env A=1 claude -p hello", "claude-code"),
        ("npx -y @anthropic-ai/claude-code -p hello", "claude-code"),
        ("npx @openai/codex@latest exec hello", "codex"),
        ("node node_modules/@google/gemini-cli/bundle/gemini.js -p hello", "gemini-cli"),
        ("node /opt/node_modules/@google/gemini-cli/bundle/gemini.js -p hello", "gemini-cli"),
        ("python3.12 -m gptme hello", "gptme"),
        ("uv run aider --message hello", "aider"),
        ("uvx llm hello", "llm"),
        ("python agent.py claude", ""),
        ("bash -c claude", ""),
        ("./my-claude -p hello", ""),
        ("codexx exec hello", ""),
    ],
)
def test_a_program_is_recognised_by_its_command(command, name):
    assert known_program("auto", command.split(), PRESETS).name == name


def test_a_preset_can_be_named_and_switched_off():
    assert known_program("codex", ["./wrapper.sh"], PRESETS).name == "codex"
    assert known_program("none", ["claude"], PRESETS) == UNKNOWN
    with pytest.raises(InputError, match="there is no preset 'codx'") as caught:
        known_program("codx", ["claude"], PRESETS)
    assert "codex" in caught.value.hint


def test_arguments_come_right_after_the_program():
    codex = known_program("auto", ["npx", "@openai/codex", "exec", "hi"], PRESETS)
    command = ["npx", "@openai/codex", "exec", "hi"]
    words = codex.command(command, "http://127.0.0.1:1/t/secret/s/run", bare_url="http://127.0.0.1:1/s/run")
    assert words[:3] == ["npx", "@openai/codex", "-c"]
    assert words[-2:] == ["exec", "hi"]
    assert 'base_url="http://127.0.0.1:1/s/run/v1"' in " ".join(words)


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_puts_the_token_on_a_command_line_that_all_users_can_read(name):
    words = KnownProgram(name, PRESETS[name]).command(["program"], "URL", bare_url="BARE")
    assert "URL" not in " ".join(words)


def test_what_the_user_sets_counts_more_than_a_preset():
    claude = known_program("auto", ["claude"], PRESETS)
    found = claude.environment({"DISABLE_TELEMETRY": "0", "HOME": "/home/ann"}, is_replayed=True)
    assert found["DISABLE_TELEMETRY"] == "0"
    assert found["DISABLE_AUTOUPDATER"] == "1"
    options = ExecArguments(replay="run.json", tools={"Bash": ToolSettings(effect=True)})
    tools = with_preset(options, claude.preset).tools
    assert tools["Bash"] == ToolSettings(effect=True)
    assert tools["Read"] == ToolSettings(run=True, read_only=True)


def test_variables_that_mislead_a_program_are_removed():
    gemini = known_program("auto", ["gemini"], PRESETS)
    assert gemini.preset.intercept
    found = gemini.environment({"GOOGLE_GEMINI_BASE_URL": "http://here", "GEMINI_API_KEY": "k"}, is_replayed=True)
    assert "GOOGLE_GEMINI_BASE_URL" not in found
    assert found["GEMINI_API_KEY"] == "k"


def test_frameworks_are_kept_quiet_in_replays_alone():
    unknown = known_program("auto", ["python", "agent.py"], PRESETS)
    assert unknown.environment({}, is_replayed=True)["OPENAI_AGENTS_DISABLE_TRACING"] == "1"
    assert unknown.environment({}, is_replayed=False) == {}
    assert unknown.environment({"OPENAI_AGENTS_DISABLE_TRACING": "0"}, is_replayed=True) == {
        **unknown.quiet,
        "OPENAI_AGENTS_DISABLE_TRACING": "0",
    }


def test_a_config_adds_presets(tmp_path):
    config = tmp_path / "offbook.toml"
    config.write_text("""
[presets.mine]
title = "My agent"
commands = ["my-agent"]
normalise = {mask = ['run-\\d+']}
""")
    presets = presets_of(load_project(config))
    assert known_program("auto", ["my-agent", "go"], presets).name == "mine"
    assert presets["mine"].normalise.mask == (r"run-\d+",)
    assert "codex" in presets


@pytest.mark.parametrize(
    ("line", "reason"),
    [("titel = 'x'", "titel"), ("title = 1", "str"), ("title = 'x'\nnormalise = {mask = ['(']}", "mask")],
)
def test_a_wrong_preset_is_refused_with_its_place(tmp_path, line, reason):
    config = tmp_path / "offbook.toml"
    config.write_text(f"[presets.mine]\n{line}\n")
    with pytest.raises(InputError) as caught:
        presets_of(load_project(config))
    assert reason in str(caught.value)
    assert "presets.mine" in str(caught.value)


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_says_what_it_is_and_of_which_version(name):
    preset = PRESETS[name]
    assert preset.title
    assert preset.tested or preset.needs
    assert not {*preset.tools.split()} & {*preset.reading_tools.split()}
    assert preset.commands or preset.environment


def test_a_preset_without_commands_fits_no_program():
    presets = {"quiet": Preset(title="Quiet", package="agent.py", environment={"A": "1"})}
    assert known_program("auto", ["agent.py"], presets).name == ""
