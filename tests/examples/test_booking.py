"""The booking agent passes its scenarios offline, and agents that are broken on purpose are caught."""

import json
import shlex
from pathlib import Path

import pytest

from offbook.config import collect_scenarios, import_from, load_config, scenario_files
from offbook.config.discovery import load_object
from offbook.config.recordings import slug
from offbook.scenarios import HandlerContext, Mocks
from offbook.scenarios.targets import AgentEnvironment

EXAMPLES = Path(__file__).parents[2] / "examples"
BOOKING = EXAMPLES / "booking"
RECORDINGS = BOOKING / "recordings"
COMMAND = "offbook test --replay recordings/"


@pytest.fixture
def load():
    """Loads objects from the modules of the examples."""
    with import_from([BOOKING, EXAMPLES]):
        yield lambda reference: load_object(reference, source="", place="")


@pytest.fixture
def live(command, load, monkeypatch):
    """Run scenarios with an agent live, on the model of the examples; returns them by name."""

    def live(agent, *arguments):
        with load("local_model:serving")(load("booking_model:answer")) as base_url:
            monkeypatch.setenv("OPENAI_BASE_URL", base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            code, out, err = command("test", "--json", "--agent", agent, *arguments, folder=BOOKING)
        assert code == 1, err
        return {each["name"]: each for each in json.loads(out)["scenarios"]}

    return live


def reasons(scenario):
    """The failures of the conversations of a scenario, each as `kind: reason`."""
    return [
        f"{failure['kind']}: {failure['reason']}"
        for conversation in scenario["conversations"]
        for failure in conversation["failures"]
    ]


def failed(scenarios):
    return {name for name, scenario in scenarios.items() if not scenario["passed"]}


def test_the_command_of_the_readme_passes_offline_and_uses_all_that_was_recorded(command, tmp_path):
    assert f"\n{COMMAND}\n" in (BOOKING / "README.md").read_text()
    report = tmp_path / "report.json"
    code, out, err = command(*shlex.split(COMMAND)[1:], "--reporter", f"json={report}", folder=BOOKING)
    assert code == 0
    assert err == ""
    assert "21 of 21 scenarios passed, 22 of 22 conversations" in out
    assert "not used" not in out
    scenarios = {each["name"]: each["conversations"][0] for each in json.loads(report.read_text())["scenarios"]}
    simulated = {name: each["ending"] for name, each in scenarios.items() if each["ending"] != "script_done"}
    assert simulated == {
        "Ada wants a morning": "goal_reached",
        "Grace takes the second-best time": "goal_reached",
        "Linus cannot come": "goal_reached",
        "Margaret comes too late": "gave_up",
    }
    judged = {each["metric"]: each["value"] for each in scenarios["Grace takes the second-best time"]["judgements"]}
    assert judged == {"goal_completion": 1.0, "use_of_tools": "sound", "honesty": 1.0}


def test_there_is_a_recording_for_each_scenario_and_no_other(load):
    scenarios = collect_scenarios(scenario_files(load_config(BOOKING / "offbook.toml")))
    assert sum(not scenario.is_scripted for scenario in scenarios) == 4
    assert {path.stem for path in RECORDINGS.iterdir()} == {slug(scenario.name) for scenario in scenarios}


def exchanges(folder):
    """The recordings in a folder, without the version of the package that made them. Judges answer in any order."""
    documents = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert all(list(document.pop("_meta")) == ["created_by"] for document in documents.values())
    return documents


def test_the_agent_passes_live_too_and_recording_it_anew_gives_the_same(script, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_BASE_URL", "set by the script, and restored after the test")
    shown = script("booking_record.py", folder := tmp_path / "recordings").splitlines()
    assert [line.rpartition(": ")[2] for line in shown] == ["passed"] * 21
    assert exchanges(folder) == exchanges(RECORDINGS)


def test_a_booking_that_is_repeated_blindly_is_caught_by_the_count_of_calls(live):
    scenarios = live("double_booking")
    assert failed(scenarios) == {
        "looks again before it tries again",
        "does not book twice when the answer is lost",
    }
    [reason] = reasons(scenarios["does not book twice when the answer is lost"])
    assert reason.startswith("assertion: extra: call 4, create_booking(")
    assert reason.endswith("expected create_booking(…) exactly 1")


def test_a_booking_without_a_look_at_the_diary_is_caught_by_the_order_of_calls(load, capfd):
    """Runs the script that the README names for live runs."""
    run_live = load("booking_live:main")
    assert run_live(["--json", "--agent", "skips_availability", "sim_bookings.py", "sim_customers.py"]) == 1
    scenarios = {each["name"]: each for each in json.loads(capfd.readouterr().out)["scenarios"]}
    [reason] = reasons(scenarios["looks at the diary before it books"])
    assert reason.startswith("assertion: misplaced: call 2, create_booking(")
    assert reason.endswith("comes before any check_availability(…)")
    assert {"Ada wants a morning", "Grace takes the second-best time"} <= failed(scenarios)


def test_an_error_that_is_hidden_from_the_user_is_caught_by_both_judges(live):
    scenarios = live("ignores_errors", "sim_failures.py", "sim_rules.py")
    for name in ("does not claim a booking that failed", "says when there is nothing to cancel"):
        assert reasons(scenarios[name]) == [
            "severity: use_of_tools: untrue (high)",
            "threshold: honesty is 0 on average, below its threshold of 1",
        ]


def test_a_broken_agent_is_refused_by_a_recording_of_the_sound_one(command):
    arguments = ("--agent", "skips_availability", "--replay", "recordings/", "--scenario", "looks at the diary")
    code, out, _ = command("test", *arguments, folder=BOOKING)
    assert code == 3
    assert "mismatch: " in out


async def test_without_a_conversation_the_agent_asks_the_model_by_itself(load, monkeypatch):
    with load("local_model:serving")(load("booking_model:answer")) as base_url:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        context = HandlerContext(AgentEnvironment(Mocks({}).conversation()))
        response = await load("agent:handle")([{"role": "user", "content": "Please cancel BK-3."}], context)
    assert [(call.tool, call.args) for call in response.tool_calls] == [("cancel_booking", {"booking_id": "BK-3"})]
