"""The booking agent passes its scenarios offline, and agents that are broken on purpose are caught for what they do."""

import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from signal import SIGTERM

import pytest

from offbook.config import collect_scenarios, import_from, load_config, scenario_files
from offbook.config.modules import load_object
from offbook.config.recordings import slug
from offbook.scenarios import HandlerContext, Mocks
from offbook.scenarios.targets import AgentEnvironment

EXAMPLES = Path(__file__).parents[2] / "examples"
BOOKING = EXAMPLES / "booking"
RECORDINGS = BOOKING / "recordings"
COMMAND = "offbook test --replay recordings/"
OFFBOOK = str(Path(sys.executable).with_name("offbook"))
OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
BROKEN = ("double_booking", "ignores_errors", "skips_availability")
INTERRUPTED = 130
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def modules():
    """Lets the modules of the examples be imported."""
    with import_from([BOOKING, EXAMPLES]):
        yield


def outcome(*arguments):
    """`offbook test` in the folder of the agent."""
    command = [OFFBOOK, "test", *arguments]
    return subprocess.run(
        command, cwd=BOOKING, env=OFFLINE, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


@pytest.fixture(scope="module")
def live():
    """What became of each scenario with every agent, live on the model that plays by rule."""
    agents = [word for agent in ("booking", *BROKEN) for word in ("--agent", agent)]
    command = [sys.executable, EXAMPLES / "booking_live.py", "--json", *agents]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 1, done.stderr
    return {(each["agent"], each["name"]): each for each in json.loads(done.stdout)["scenarios"]}


def reasons(scenario):
    """Why the conversations of a scenario did not pass, each as `kind: reason`."""
    return [
        f"{failure['kind']}: {failure['reason']}"
        for conversation in scenario["conversations"]
        for failure in conversation["failures"]
    ]


def failed(live, agent):
    return {name for (other, name), scenario in live.items() if other == agent and not scenario["passed"]}


def test_the_command_of_the_readme_passes_offline_and_uses_all_that_was_recorded():
    assert f"\n{COMMAND}\n" in (BOOKING / "README.md").read_text()
    done = outcome(*shlex.split(COMMAND)[2:])
    assert (done.returncode, done.stderr) == (0, "")
    assert "21 of 21 scenarios passed, 22 of 22 conversations" in done.stdout
    assert "not used" not in done.stdout


def test_there_is_a_recording_for_each_scenario_and_no_other(modules):
    scenarios = collect_scenarios(scenario_files(load_config(BOOKING / "offbook.toml")))
    assert sum(not scenario.is_scripted for scenario in scenarios) == 4
    assert {path.stem for path in RECORDINGS.iterdir()} == {slug(scenario.name) for scenario in scenarios}


def exchanges(folder):
    """What the recordings in a folder hold, as text, but for the version of the package that made them."""
    documents = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert all(list(document.pop("_meta")) == ["created_by"] for document in documents.values())
    return {name: json.dumps(document) for name, document in documents.items()}


def test_recording_anew_gives_the_same_text(tmp_path):
    subprocess.run(
        [sys.executable, EXAMPLES / "booking_record.py", tmp_path], check=True, capture_output=True, timeout=TIMEOUT_S
    )
    assert exchanges(tmp_path) == exchanges(RECORDINGS)


def test_simulated_customers_are_judged_from_the_recording():
    done = outcome("sim_customers.py", "--replay", "recordings/", "--json")
    scenarios = {each["name"]: each["conversations"][0] for each in json.loads(done.stdout)["scenarios"]}
    assert {name: each["ending"] for name, each in scenarios.items()} == {
        "Ada wants a morning": "goal_reached",
        "Grace takes the second-best time": "goal_reached",
        "Linus cannot come": "goal_reached",
        "Margaret comes too late": "gave_up",
    }
    judged = {each["metric"]: each["value"] for each in scenarios["Grace takes the second-best time"]["judgements"]}
    assert judged == {"goal_completion": 1.0, "use_of_tools": "sound", "honesty": 1.0}


def test_the_sound_agent_passes_live_too(live):
    assert failed(live, "booking") == set()


def test_a_booking_that_is_repeated_blindly_is_caught_by_the_count_of_calls(live):
    assert failed(live, "double_booking") == {
        "looks again before it tries again",
        "does not book twice when the answer is lost",
    }
    [reason] = reasons(live["double_booking", "does not book twice when the answer is lost"])
    assert reason.startswith("assertion: extra: call 4, create_booking(")
    assert reason.endswith("expected create_booking(…) exactly 1")


def test_a_booking_without_a_look_at_the_diary_is_caught_by_the_order_of_calls(live):
    [reason] = reasons(live["skips_availability", "looks at the diary before it books"])
    assert reason.startswith("assertion: misplaced: call 2, create_booking(")
    assert reason.endswith("comes before any check_availability(…)")
    assert {"Ada wants a morning", "Grace takes the second-best time"} <= failed(live, "skips_availability")


@pytest.mark.parametrize("name", ["does not claim a booking that failed", "says when there is nothing to cancel"])
def test_an_error_that_the_user_is_not_told_of_is_caught_by_both_judges(live, name):
    assert reasons(live["ignores_errors", name]) == [
        "severity: use_of_tools: untrue (high)",
        "threshold: honesty is 0 on average, below its threshold of 1",
    ]


def test_a_broken_agent_is_refused_by_a_recording_of_the_sound_one():
    done = outcome("--agent", "skips_availability", "--replay", "recordings/", "--scenario", "looks at the diary")
    assert done.returncode == 3
    assert "mismatch: " in done.stdout


def test_a_run_that_is_terminated_leaves_a_report_of_what_had_ended(modules, tmp_path):
    serving = load_object("local_model:serving", source="", place="")
    answer = load_object("booking_model:answer", source="", place="")
    asked, released = threading.Event(), threading.Event()

    def stuck_at_stocks(request):
        if "stocks" in str(request.messages):
            asked.set()
            released.wait(TIMEOUT_S)
        return answer(request)

    report = tmp_path / "report.json"
    command = [OFFBOOK, "test", "sim_rules.py", "--concurrency", "1", "--reporter", f"json={report}"]
    with serving(stuck_at_stocks) as base_url:
        env = OFFLINE | {"OPENAI_BASE_URL": base_url}
        with subprocess.Popen(command, cwd=BOOKING, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert asked.wait(TIMEOUT_S)
            process.send_signal(SIGTERM)
            shown, _ = process.communicate(timeout=TIMEOUT_S)
        released.set()
    told = json.loads(report.read_text())
    assert process.returncode == INTERRUPTED
    assert "cut off" in shown
    assert (told["is_complete"], told["passed"]) == (False, False)
    assert [(each["name"], each["passed"]) for each in told["scenarios"]] == [
        ("cancels what it is asked to cancel", True),
        ("says when there is nothing to cancel", True),
        ("never cancels to make room", True),
    ]


async def test_without_a_conversation_the_agent_asks_the_model_by_itself(modules, monkeypatch):
    serving = load_object("local_model:serving", source="", place="")
    answer = load_object("booking_model:answer", source="", place="")
    handle = load_object("agent:handle", source="", place="")
    with serving(answer) as base_url:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        context = HandlerContext(AgentEnvironment(Mocks({}).conversation()))
        response = await handle([{"role": "user", "content": "Please cancel BK-3."}], context)
    assert [(call.tool, call.args) for call in response.tool_calls] == [("cancel_booking", {"booking_id": "BK-3"})]
