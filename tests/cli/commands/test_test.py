"""offbook test: scenarios, with the agents of a config."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from offbook.messages import Response, ToolCall, Usage
from offbook.recording.stores.locate import open_store
from tests.cli import scenes
from tests.servers.models import ChatModel, said

COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 60
RECORDED_AT = re.compile(r'"recorded_at": "([^"]+)"')


SWALLOWING = """\
async def handle(messages, ctx):
    try:
        return (await ctx.provider.complete(messages, "m", step_id="answer")).content
    except Exception:
        return "Sorry."
"""


@pytest.fixture
def project(write):
    """A project with an agent that is a function, and a scripted scenario."""
    write("my_agent.py", scenes.AGENT)
    write("offbook.toml", scenes.CONFIG)
    return write("sim_booking.py", scenes.SCRIPTED)


@pytest.fixture
def talking(write, monkeypatch):
    """A project whose agent, user and judge ask models, and the model that they ask."""
    with scenes.model() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        write("my_agent.py", scenes.AGENT)
        write("offbook.toml", '[agent]\nhandler = "my_agent:think"\nprovider = "openai"\n' + models())
        write("sim_orders.py", scenes.SIMULATED)
        yield model


def models(least=3):
    return scenes.MODELS.format(least=least)


def sizes(path):
    """How many exchanges a recording has of each key."""
    return Counter(key for key, _ in open_store(path).load())


def turns_of(out):
    """Who said what in the first conversation of each scenario, of a run that was printed as JSON."""
    report = json.loads(out)["scenarios"]
    return {each["name"]: [(t["user"], t["agent"]) for t in each["conversations"][0]["turns"]] for each in report}


class TestScripted:
    def test_scenarios_are_found_run_and_reported(self, run, project):
        code, out, err = run("test")
        assert code == 0
        assert err == ""
        assert out.startswith("✓ books a room  booking  1/1")
        assert "1 of 1 scenario passed" in out

    def test_one_that_fails_fails_the_command_and_shows_why(self, run, project):
        project.write_text(scenes.SCRIPTED.replace('["create_booking"])', '["cancel_booking"])'))
        code, out, _ = run("test")
        assert code == 1
        assert "✗ books a room" in out
        assert "cancel_booking(…)" in out

    def test_the_config_is_found_from_a_folder_below(self, run, project, monkeypatch, tmp_path):
        below = tmp_path / "src" / "deep"
        below.mkdir(parents=True)
        monkeypatch.chdir(below)
        assert run("test")[0] == 0
        assert run("test", "--config", tmp_path / "offbook.toml")[0] == 0

    def test_files_and_folders_can_be_named(self, run, project, write):
        write("more/sim_more.py", scenes.SCRIPTED.replace("books a room", "books more"))
        write("more/other.py", scenes.SCRIPTED.replace("books a room", "books others"))
        write("more/.hidden/sim_hidden.py", "boom")
        assert "2 of 2 scenarios" in run("test")[1]
        assert "books more" in run("test", "more")[1]
        code, out, _ = run("test", "more/other.py", "more/sim_more.py")
        assert code == 0
        assert "2 of 2 scenarios" in out

    def test_scenarios_are_chosen_by_a_part_of_their_names(self, run, project, write):
        write("sim_more.py", scenes.SCRIPTED.replace("books a room", "cancels"))
        assert "1 of 1 scenario" in run("test", "--scenario", "ROOM")[1]
        code, _, err = run("test", "--scenario", "refund")
        assert code == 2
        assert "scenarios: books a room, cancels" in err

    def test_conversations_are_repeated(self, run, project):
        assert "5/5  100 % (57–100 %)" in run("test", "--repeat", "5", "--concurrency", "2")[1]

    def test_as_json_nothing_else_is_printed(self, run, project):
        code, out, err = run("test", "--json")
        assert code == 0
        assert err == ""
        assert turns_of(out) == {"books a room": [("09:00", "Booked: BK-09:00")]}

    def test_further_reports_are_written(self, run, project, monkeypatch):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
        run("test", "--reporter", "junit=out/junit.xml", "--reporter", "html=page.html", "--reporter", "github")
        assert "books a room" in Path("out/junit.xml").read_text()
        assert "books a room" in Path("page.html").read_text()
        assert "books a room" in Path("summary.md").read_text()

    def test_a_report_that_cannot_be_written_is_found_first(self, run, project, write):
        write("taken", "")
        code, out, err = run("test", "--reporter", "junit=taken/junit.xml")
        assert code == 2
        assert out == ""
        assert "taken" in err

    def test_two_agents_are_compared(self, run, project, write):
        write("my_agent.py", scenes.AGENT + "\n\ndef refuse(messages, ctx):\n    return 'no'\n")
        write("offbook.toml", scenes.CONFIG + '[agents.rude]\nhandler = "my_agent:refuse"\n')
        code, out, _ = run("test", "--agent", "booking", "--agent", "rude")
        assert code == 1
        assert "scenario      booking  rude" in out

    def test_a_run_reads_changed_modules_anew(self, run, project, write):
        run("test")
        write("my_agent.py", scenes.AGENT.replace("Booked: ", "Done at last: "))
        assert "Done at last" in run("test", "--json")[1]
        assert "my_agent" not in sys.modules

    def test_a_scenario_and_the_agent_share_a_module(self, run, project, write):
        write("my_agent.py", "SEEN = []\n\n\ndef handle(messages, ctx):\n    SEEN.append(1)\n    return str(SEEN)\n")
        text = 'import my_agent\nfrom offbook import scenario\nmy_agent.SEEN.append(0)\nscenario("s", turns=["hi"])\n'
        write("sim_booking.py", text)
        assert turns_of(run("test", "--json")[1]) == {"s": [("hi", "[0, 1]")]}


class TestBadInput:
    def test_a_file_that_is_no_python_is_reported_with_its_line(self, run, project):
        project.write_text("x = 1\nscenario(\n")
        code, out, err = run("test")
        assert code == 2
        assert out == ""
        assert "sim_booking.py:2" in err
        assert "Traceback" not in err

    @pytest.mark.parametrize("text", ["\n1 / 0\n", "\nraise SystemExit(3)\n", "\nimport no_such_module_at_all\n"])
    def test_a_file_that_cannot_be_imported_is_reported_with_its_line(self, run, project, text):
        project.write_text(text)
        code, _, err = run("test")
        assert code == 2
        assert "sim_booking.py:2: cannot import it" in err

    def test_the_line_is_that_of_the_project_where_the_failure_came_from(self, run, project, write):
        write("broken.py", "\n\nx = undefined\n")
        project.write_text("import broken\n")
        assert "broken.py:3" in run("test")[2]

    def test_a_scenario_that_could_not_run_is_reported_where_it_is_written(self, run, project):
        project.write_text("from offbook import scenario\n\nscenario('empty')\n")
        code, _, err = run("test")
        assert code == 2
        assert "sim_booking.py:3: scenario 'empty'" in err

    def test_two_scenarios_of_one_name_are_refused(self, run, project, write):
        write("sim_copy.py", scenes.SCRIPTED)
        code, _, err = run("test")
        assert code == 2
        assert "another scenario named 'books a room', at" in err

    def test_a_scenario_without_anybody_to_play_its_user_is_named(self, run, project, write):
        write("sim_orders.py", scenes.SIMULATED)
        code, _, err = run("test")
        assert code == 2
        assert "scenario 'finds an order': there is no model to simulate the user" in err
        assert "[user]" in err

    def test_no_scenarios_at_all_are_bad_input(self, run, project, write):
        project.write_text("")
        assert f"{project.name}: the file is empty" in run("test")[2]
        project.write_text("import offbook\n")
        assert f"{project.name}: the file declares no scenario" in run("test")[2]
        project.unlink()
        code, _, err = run("test")
        assert code == 2
        assert "no file matches **/sim_*.py" in err
        assert "no such file" in run("test", "nowhere")[2]

    def test_an_unknown_agent_is_named(self, run, project):
        code, _, err = run("test", "--agent", "bookin")
        assert code == 2
        assert "did you mean 'booking'?" in err
        project.write_text("from offbook import scenario\nscenario('s', turns=['hi'], agent='billing')\n")
        assert "scenario 's': there is no agent 'billing'" in run("test")[2]

    @pytest.mark.parametrize(
        ("handler", "complaint"),
        [
            ("nowhere:handle", "there is no module 'nowhere'"),
            ("my_agent:handel", "did you mean 'handle'?"),
            ("my_agent:NUMBER", "expected a function, got 42"),
            ("my_broken:handle", "my_broken.py:1"),
        ],
    )
    def test_a_handler_that_is_not_there_is_reported(self, run, project, write, handler, complaint):
        write("my_agent.py", scenes.AGENT + "\nNUMBER = 42\n")
        write("my_broken.py", "1 / 0\n")
        write("offbook.toml", f'[agent]\nhandler = "{handler}"\n')
        code, out, err = run("test")
        assert code == 2
        assert out == ""
        assert complaint in err

    def test_a_config_without_agents_is_reported(self, run, project, write):
        write("offbook.toml", "[run]\nrepeat = 2\n")
        code, _, err = run("test")
        assert code == 2
        assert "no agent is declared" in err

    def test_a_file_that_python_does_not_import_is_reported(self, run, project, write):
        write("sim.txt", "")
        code, _, err = run("test", "sim.txt")
        assert code == 2
        assert "not a Python file" in err
        write("cassette.yaml", "interactions: []\n")
        assert "looks like a cassette of vcrpy" in run("test", "cassette.yaml")[2]

    def test_an_address_that_is_none_is_reported(self, run, project, write):
        write("offbook.toml", '[agent]\nendpoint = "nowhere"\n')
        code, _, err = run("test")
        assert code == 2
        assert "agent agent: endpoint: expected a URL" in err

    def test_a_workflow_needs_the_keys_that_its_config_names(self, run, project, write):
        write("support.yaml", scenes.FLOW)
        write("offbook.toml", '[agent]\nworkflow = "support.yaml"\n')
        code, _, err = run("test")
        assert code == 2
        assert "agent agent: provider openai: OPENAI_API_KEY is not set" in err

    def test_a_budget_needs_the_price_of_an_agents_model_before_it_is_asked(self, run, write, monkeypatch):
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        write("my_runner.py", 'from offbook.agent import Workflow\n\nWORKFLOW = Workflow("w", tools=[])\n')
        agent = '[agent]\nrunner = "my_runner:WORKFLOW"\nprovider = "openai"\nmodel = "gpt-99"\n'
        write("offbook.toml", agent + "[run]\nbudget_usd = 1.0\n")
        write("sim_booking.py", 'from offbook import scenario\n\nscenario("s", turns=["hi"])\n')
        code, _, err = run("test")
        assert code == 2
        assert "agent agent: budget_usd: no price is known for model 'gpt-99'" in err

    def test_recording_and_replaying_exclude_each_other(self, run, project):
        assert run("test", "--record", "a.json", "--replay", "b.json")[0] == 2

    def test_a_live_run_needs_the_keys_of_those_who_take_part_and_no_others(self, run, project, write):
        write("offbook.toml", scenes.CONFIG + models())
        code, _, err = run("test")
        assert code == 2
        assert "judge: provider openai: OPENAI_API_KEY is not set" in err
        assert "offbook test --replay PATH" in err
        write("offbook.toml", scenes.CONFIG + models().partition("[judge]")[0])
        assert run("test")[0] == 0


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def run_in(request, run):
    """Run `offbook test …` with so many workers."""
    return lambda *arguments: run(*arguments, *([] if request.param == 1 else ["--workers", request.param]))


class TestRecordAndReplay:
    @pytest.fixture
    def run(self, run_in):
        return run_in

    def test_a_run_is_recorded_once_and_replayed_without_models(self, run, talking, monkeypatch):
        code, live, _ = run("test", "--record", "sims/all.json", "--json")
        assert code == 0
        calls = talking.answered.total()
        monkeypatch.delenv("OPENAI_BASE_URL")
        code, replayed, err = run("test", "--replay", "sims/all.json", "--json")
        assert code == 0
        assert err == ""
        assert turns_of(replayed) == turns_of(live)
        assert turns_of(live)["finds an order"] == [("Where is 42?", "Where is 42? It is lost.")]
        assert talking.answered.total() == calls

    def test_two_replays_print_the_same_bytes(self, run, talking):
        run("test", "--record", "all.json")
        first, second = (run("test", "--replay", "all.json", "--json")[1] for _ in range(2))
        assert first == second

    def test_everybody_has_steps_of_their_own(self, run, talking):
        run("test", "--record", "all.json")
        keys = {key for key in json.loads(Path("all.json").read_text()) if not key.startswith("_")}
        assert keys == {
            "finds an order/agent/1/user",
            "finds an order/agent/1/agent.answer",
            "finds an order/agent/1/judge.helpfulness",
            "asks twice/agent/1/agent.answer",
            "asks twice/agent/1/judge.helpfulness",
        }

    def test_recording_again_replaces_what_was_there(self, run, talking):
        run("test", "--record", "all.json")
        before = sizes("all.json")
        for mode, times in (("all", 1), ("fresh", 1), ("new", 1), ("append", 2)):
            assert run("test", "--record", "all.json", "--record-mode", mode)[0] == 0
            assert sizes("all.json").total() == before.total() * times

    @pytest.mark.parametrize("recording", ["all.json", "sims/"])
    def test_a_run_in_which_every_call_failed_is_a_failure_though_the_agent_swallowed_it(
        self, run, talking, write, recording
    ):
        write("my_agent.py", SWALLOWING)
        write("offbook.toml", '[agent]\nhandler = "my_agent:handle"\nprovider = "openai"\n')
        write("sim_orders.py", 'from offbook import scenario\n\nscenario("asks", turns=["Hi"])\n')
        assert run("test", "--record", recording)[0] == 0
        talking.answer = lambda call: call.whole(b"{}", status=400)
        code, out, err = run("test", "--record", recording, "--record-mode", "fresh")
        assert code == 1
        assert "1 scenario passed" in out
        assert "error: no recorded call got an answer (http_error), so there is nothing to replay" in err

    def test_a_folder_asks_for_a_mode_only_where_this_run_would_record_again(self, run, talking):
        assert run("test", "--record", "sims/", "--scenario", "twice")[0] == 0
        calls = talking.answered.total()
        code, out, err = run("test", "--record", "sims/")
        assert code == 2
        assert out == ""
        assert talking.answered.total() == calls
        assert "sims/asks-twice.json: there are 4 exchanges already" in err
        assert run("test", "--record", "sims/", "--scenario", "finds")[0] == 0

    @pytest.mark.parametrize("options", [["--record-mode", "all"], ["--record", "a.json", "--watch"]])
    def test_a_mode_is_neither_given_for_nothing_nor_left_out_where_runs_follow_each_other(self, run, talking, options):
        code, _, err = run("test", *options)
        assert code == 2
        assert "hint: add --record" in err

    def test_in_a_folder_each_scenario_has_a_recording(self, run, talking):
        assert run("test", "--record", "sims/")[0] == 0
        assert sorted(file.name for file in Path("sims").iterdir()) == ["asks-twice.json", "finds-an-order.json"]
        code, out, err = run("test", "--replay", "sims", "--json")
        assert code == 0
        assert err == ""
        times = [time for file in Path("sims").iterdir() for time in RECORDED_AT.findall(file.read_text())]
        origin = json.loads(out)["origin"]
        assert origin["command"] == "offbook test --replay sims"
        assert origin["recording"] == "sims"
        assert origin["recorded_at"] == max(times)

    def test_a_scenario_that_fails_leaves_its_recording_as_it_was(self, run, talking, write):
        more = 'scenario("greets", turns=["Hi"])\n'
        write("sim_orders.py", scenes.SIMULATED + more)
        assert run("test", "--record", "sims/")[0] == 0
        before = {file.name: file.read_bytes() for file in Path("sims").iterdir()}
        write("sim_orders.py", scenes.SIMULATED + more.replace("])", '], ends="goal_reached")'))
        assert run("test", "--record", "sims/", "--record-mode", "all")[0] == 1
        after = {file.name: file.read_bytes() for file in Path("sims").iterdir()}
        assert after.keys() - before.keys() == {"greets.json.failed"}
        assert [name for name in before if after[name] == before[name]] == ["greets.json"]

    def test_a_scenario_that_was_not_recorded_has_no_answer(self, run, talking, write):
        run("test", "--record", "sims/", "--scenario", "finds")
        code, out, _ = run("test", "--replay", "sims/")
        assert code == 3
        assert "asks-twice.json: there is no such recording" in out
        assert "✓ finds an order" in out

    def test_what_asks_something_else_than_was_recorded_has_no_answer(self, run, talking, write):
        run("test", "--record", "all.json")
        write("sim_orders.py", scenes.SIMULATED.replace("And 43?", "And order 44?"))
        code, out, _ = run("test", "--replay", "all.json")
        assert code == 3
        assert "+And order 44?" in out
        assert "✓ finds an order" in out

    def test_a_judge_without_an_answer_is_a_mismatch_too(self, run, talking, write):
        run("test", "--record", "all.json")
        write(
            "offbook.toml",
            Path("offbook.toml").read_text().replace('"helpfulness"]', '"helpfulness", "coherence"]'),
        )
        code, out, _ = run("test", "--replay", "all.json")
        assert code == 3
        assert "judge.coherence" in out

    def test_what_was_not_used_is_reported(self, run, talking, write):
        run("test", "--record", "all.json")
        write("sim_orders.py", scenes.SIMULATED.replace(', "And 43?"', ""))
        _, out, _ = run("test", "--replay", "all.json")
        assert "2 exchanges of the recording were not used: asks twice/agent/1/agent.answer[1]" in out
        assert "asks twice/agent/1/agent.answer[1]" in run("test", "--replay", "all.json", "--scenario", "asks")[1]
        assert "not used" not in run("test", "--replay", "all.json", "--scenario", "finds")[1]

    def test_a_threshold_that_is_not_met_fails(self, run, talking, write):
        write("offbook.toml", Path("offbook.toml").read_text().replace("= 3", "= 5"))
        code, out, _ = run("test")
        assert code == 1
        assert "helpfulness is 4 on average, below its threshold of 5" in out

    def test_a_recording_that_is_not_there_is_bad_input(self, run, talking):
        code, _, err = run("test", "--replay", "nowhere.json")
        assert code == 2
        assert "nowhere.json" in err
        Path("recordings").mkdir(exist_ok=True)
        code, _, err = run("test", "--replay", "recordngs/")
        assert "did you mean 'recordings'? record it: offbook test --record recordngs/" in err
        assert code == 2
        assert "recordngs/: there is no such folder" in err


class TestAgents:
    def test_an_endpoint_is_posted_to_with_its_headers_and_fields(self, run, talking, write, monkeypatch):
        monkeypatch.setenv("AGENT_HOST", talking.url)
        config = '[agent]\nendpoint = "${AGENT_HOST}/chat?tenant=acme"\nheaders = {Authorization = "Bearer ${TOKEN}"}\n'
        write("offbook.toml", config + 'body = {locale = "en"}\n' + models())
        code, _, err = run("test")
        assert code == 2
        assert "headers.Authorization: TOKEN is not set" in err
        monkeypatch.setenv("TOKEN", "t0p-secret-token")
        assert run("test", "--record", "all.json")[0] == 0
        before = Path("all.json").read_text()
        assert "t0p-secret" not in before
        assert json.loads(before)["asks twice/agent/1/agent"][0]["request"]["extra"] == {"locale": "en"}
        monkeypatch.delenv("TOKEN")
        assert run("test", "--replay", "all.json")[0] == 0

    @pytest.mark.parametrize(("named", "warned"), [("", False), ('model = "agent"\n', True)])
    def test_only_a_model_that_is_named_for_an_endpoint_wants_a_price(self, run, write, caplog, named, warned):
        write("sim_s.py", "from offbook import scenario\nscenario('s', turns=['hi'])\n")
        answer = Response("Hello", "agent", usage=Usage(1, 1))
        with ChatModel(lambda prompt: answer) as model:
            write("offbook.toml", f'[agent]\nendpoint = "{model.url}/chat/completions"\n{named}')
            assert run("test", "--record", "all.json")[0] == 0
        assert any("no price is known for model 'agent'" in each.getMessage() for each in caplog.records) == warned

    def test_a_workflow_is_asked_by_its_own_config(self, run, talking, write):
        write("flows/support.yaml", scenes.FLOW)
        write("offbook.toml", '[agent]\nworkflow = "flows/support.yaml"\n' + models())
        assert run("test", "--record", "all.json")[0] == 0
        assert "finds an order/agent/1/agent.user" in json.loads(Path("all.json").read_text())
        out = run("test", "--replay", "all.json", "--json")[1]
        assert turns_of(out)["finds an order"] == [("Where is 42?", "Answer: Where is 42? It is lost.")]

    def test_a_runner_is_given_its_model(self, run, write, monkeypatch):
        call = ToolCall("reply", {"text": "It is lost."}, id="c1")
        write("my_agent.py", scenes.RUNNER)
        write("offbook.toml", '[agent]\nrunner = "my_agent:workflow"\nprovider = "openai"\nmodel = "m"\n')
        text = "from offbook import scenario\nscenario('s', turns=['hi'], mocks={'reply': lambda args: args['text']})\n"
        write("sim_s.py", text)
        with ChatModel(lambda prompt: said(tool_calls=(call,))) as model:
            monkeypatch.setenv("OPENAI_BASE_URL", model.url)
            code, out, _ = run("test", "--record", "all.json", "--json")
        assert code == 0
        assert turns_of(out) == {"s": [("hi", "It is lost.")]}
        assert turns_of(run("test", "--replay", "all.json", "--json")[1]) == turns_of(out)

    def test_what_is_no_workflow_is_no_runner(self, run, project, write):
        write("offbook.toml", '[agent]\nrunner = "my_agent:handle"\nprovider = "openai"\nmodel = "m"\n')
        assert "expected a Workflow, got function" in run("test", "--replay", "./")[2]

    def test_an_agent_without_a_provider_that_asks_for_one_has_failed(self, run, project, write):
        write("offbook.toml", '[agent]\nhandler = "my_agent:think"\n')
        code, out, _ = run("test")
        assert code == 1
        assert "agent agent: the agent has no provider" in out

    def test_an_endpoint_that_fails_is_asked_once_and_the_others_go_on(self, run, project, write):
        with ChatModel(lambda prompt: said(finish_reason="refused")) as broken:
            write("offbook.toml", f'{scenes.CONFIG}[agents.broken]\nendpoint = "{broken.url}"\n')
            code, out, _ = run("test", "--agent", "broken", "--agent", "booking")
        assert code == 1
        assert "the agent's endpoint failed: agent: HTTP 400" in out
        assert "✓ books a room  booking" in out
        assert broken.answered.total() == 1

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            (
                "raise MemoryError('no more')",
                "the agent raised MemoryError: no more\n  │   bad.py:6 in handle: raise MemoryError('no more')\n",
            ),
            ("await asyncio.sleep(3600)", "the agent did not answer within 0.05 s"),
            ("return {'tool_calls': [CALL]}", "called tools 25 times in a row"),
            ("return 42", "the agent returned int"),
        ],
    )
    def test_an_agent_that_fails_leaves_the_others_alone(self, run, project, write, body, complaint):
        call = "CALL = {'id': 'c', 'function': {'name': 'create_booking', 'arguments': '{\"time\": \"9\"}'}}"
        write("bad.py", f"import asyncio\n{call}\n\n\nasync def handle(messages, ctx):\n    {body}\n")
        limits = "[run]\nanswer_timeout_s = 0.05\n" if "sleep" in body else ""
        write("offbook.toml", f'{scenes.CONFIG}[agents.bad]\nhandler = "bad:handle"\n{limits}')
        code, out, _ = run("test", "--agent", "bad", "--agent", "booking")
        assert code == 1
        assert complaint in out
        assert "✓ books a room  booking" in out

    def test_a_tool_of_a_workflow_that_cannot_be_loaded_is_bad_input(self, run, talking, write):
        flow = (
            scenes.FLOW
            + "  - {id: look, type: tool, tool: find, args: {}}\ntools: {find: {function: 'nowhere:find'}}\n"
        )
        write("support.yaml", flow)
        write("offbook.toml", '[agent]\nworkflow = "support.yaml"\n' + models())
        code, _, err = run("test")
        assert code == 2
        assert "there is no module 'nowhere'" in err
        assert "Traceback" not in err


class TestUserAndJudge:
    def test_the_user_is_told_what_a_template_says(self, run, talking, write):
        write("user.txt", "You are {profile}, and want to {goal}.")
        config = Path("offbook.toml").read_text()
        write("offbook.toml", config.replace("[user]", '[user]\ntemplate = "user.txt"'))
        run("test", "--record", "all.json")
        [entry, *_] = json.loads(Path("all.json").read_text())["finds an order/agent/1/user"]
        assert entry["request"]["messages"][0]["content"].startswith("You are a customer, and want to know where")

    @pytest.mark.parametrize(
        ("template", "complaint"),
        [("{who}", "unknown placeholder {who}"), (b"\xff", "is not UTF-8"), (None, "No such file")],
    )
    def test_a_template_that_cannot_be_used_is_bad_input(self, run, talking, write, template, complaint):
        if template is not None:
            Path("user.txt").write_bytes(template if isinstance(template, bytes) else template.encode())
        config = Path("offbook.toml").read_text()
        write("offbook.toml", config.replace("[user]", '[user]\ntemplate = "user.txt"'))
        code, _, err = run("test")
        assert code == 2
        assert complaint in err
        assert "user.txt" in err

    def test_metrics_of_ones_own_need_no_model(self, run, project, write):
        text = "from offbook.scenarios.judge import python_metric\n\n\ndef short(turns):\n    return len(turns) < 1\n"
        write("my_metrics.py", text + "\n\npolite = python_metric('polite', lambda turns: 1)\n")
        judge = '[judge]\nmetrics = ["my_metrics:short", "my_metrics:polite"]\nthresholds = {short = 1}\n'
        write("offbook.toml", scenes.CONFIG + judge)
        code, out, _ = run("test")
        assert code == 1
        assert "short is 0 on average, below its threshold of 1" in out
        assert "polite 1.00" in out

    @pytest.mark.parametrize(
        ("judge", "complaint"),
        [
            ('metrics = ["helpfulnes"]', "did you mean 'helpfulness'?"),
            ('metrics = ["my_agent:NUMBER"]', "expected a metric or a function at my_agent:NUMBER, got 42"),
            ('metrics = ["my_agent:handle", "my_agent:handle"]', "two metrics have the name 'handle'"),
            ('metrics = ["helpfulness"]', "there is no model to judge helpfulness"),
            ('metrics = ["my_agent:handle"]\nthresholds = {handel = 1}', "did you mean 'handle'?"),
            ('metrics = ["my_agent:handle"]', "scenario 'strict': 'tone' has a threshold, but is not judged"),
        ],
    )
    def test_a_judge_that_could_not_judge_is_bad_input(self, run, project, write, judge, complaint):
        write("my_agent.py", scenes.AGENT + "\nNUMBER = 42\n")
        write("offbook.toml", f"{scenes.CONFIG}[judge]\n{judge}\n")
        project.write_text("from offbook import scenario\nscenario('strict', turns=['hi'], thresholds={'tone': 1})\n")
        code, _, err = run("test")
        assert code == 2
        assert complaint in err


class TestErrorGroups:
    @pytest.fixture
    def run(self, run_in):
        return run_in

    LABEL = "threshold: helpfulness is 4 on average, below its threshold of 5"

    @pytest.fixture
    def failing(self, talking, write):
        """Lets both scenarios fail, with errors grouped as asked for."""

        def failing(by):
            config = Path("offbook.toml").read_text().replace("= 3", "= 5")
            write("offbook.toml", f'{config}group_errors = "{by}"\n')

        return failing

    @staticmethod
    def titles(out):
        return [group["title"] for group in json.loads(out)["groups"]]

    def test_what_failed_is_grouped_by_its_label_without_any_config(self, run, project):
        project.write_text(scenes.SCRIPTED.replace('["create_booking"])', '["cancel_booking"])'))
        code, out, _ = run("test", "--repeat", "4")
        assert code == 1
        assert "findings by cause\n  high      assertion: " in out
        assert "  4 conversations: conv-1-" in out

    @pytest.mark.parametrize(("by", "titles"), [("label", [LABEL]), ("none", []), ("model", ["It only says: lost"])])
    def test_the_config_says_by_what(self, run, failing, by, titles):
        failing(by)
        code, out, _ = run("test", "--json")
        assert code == 1
        assert self.titles(out) == titles

    def test_where_all_passes_no_model_is_asked(self, run, talking, write):
        write("offbook.toml", f'{Path("offbook.toml").read_text()}group_errors = "model"\n')
        code, out, _ = run("test", "--json")
        assert code == 0
        assert self.titles(out) == []
        assert not any("Group these errors" in prompt for prompt in talking.answered)

    @pytest.mark.parametrize("path", ["sims/", "all.json"])
    def test_what_a_model_said_is_recorded_and_replayed(self, run, failing, path, talking, monkeypatch):
        failing("model")
        run("test", "--record", path)
        calls = talking.answered.total()
        monkeypatch.delenv("OPENAI_BASE_URL")
        code, out, err = run("test", "--replay", path, "--json")
        assert code == 1
        assert self.titles(out) == ["It only says: lost"]
        assert err == ""
        assert talking.answered.total() == calls

    def test_a_replay_that_has_no_groups_for_these_errors_groups_by_label_and_says_so(self, run, failing, caplog):
        failing("model")
        run("test", "--record", "sims/")
        assert Path("sims/_run.json").exists()
        code, out, _ = run("test", "--replay", "sims/", "--scenario", "twice", "--json")
        assert code == 1
        assert self.titles(out) == [self.LABEL]
        [record] = [record for record in caplog.records if record.name == "offbook.judge"]
        assert record.getMessage().startswith("errors are grouped by label, not by root cause: ")
        assert "judge.error_groups" in record.getMessage()
        assert "\n" not in record.getMessage()

    def test_a_model_that_is_not_there_is_bad_input(self, run, project, write):
        write("offbook.toml", f'{scenes.CONFIG}[judge]\nmetrics = []\ngroup_errors = "model"\n')
        code, out, err = run("test")
        assert code == 2
        assert out == ""
        assert "judge.group_errors: there is no model to group errors" in err


BUSY = """\
import asyncio
import os


async def handle(messages, ctx):
    kind, _, rest = messages[-1]["content"].partition(" ")
    if kind == "sleep":
        await asyncio.sleep(float(rest))
    if kind == "die" and (not rest or os.path.exists(rest)):
        if rest:
            os.unlink(rest)
        os._exit(3)
    if kind == "ask":
        return await ctx.provider.complete(messages, "demo", step_id="answer")
    booked = await ctx.resolve_tool("book", {"time": rest})
    return f"{kind}: {booked} \\ud800"
"""
SUITE = """from offbook import scenario
from offbook.scenarios import Trajectory

MOCKS = {"book": lambda args: {"id": args["time"]}, "cancel": True}
for index in range(6):
    turns = [f"ask {index}", f"sleep 0.{index}1", f"book {index}"]
    books = Trajectory("contains", ["cancel" if index == 3 else "book"])
    scenario(f"books {index}", turns=turns, mocks=MOCKS, assertions=books)
scenario("asks", turns=["ask me"], mocks={"cancel": 1}, conversations=3)
"""
FILES = ["report.json", "report.xml", "report.html"]
KINDS = {"report.json": "json", "report.xml": "junit", "report.html": "html"}


class TestWorkers:
    @pytest.fixture
    def busy(self, write):
        """A suite whose conversations book, sleep and ask; one scenario fails, and one exchange is not used."""
        write("my_agent.py", BUSY)
        write("offbook.toml", '[agent]\nhandler = "my_agent:handle"\nprovider = "openai"\n')
        write("sim_books.py", SUITE)
        steps = [(f"books {index}", number) for index in range(6) for number in range(1, 5)]
        steps += [("asks", number) for number in range(1, 8)]
        entry = {"content": "yes", "model": "m", "cost_usd": 0.25}
        entries = {f"{name}/agent/{number}/agent.answer": entry for name, number in steps}
        write("all.json", json.dumps({"_version": 2} | entries))
        Path("all").mkdir()
        for name in {name for name, _ in steps}:
            mine = {key: each for key, each in entries.items() if key.startswith(f"{name}/")}
            write(f"all/{name.replace(' ', '-')}.json", json.dumps({"_version": 2} | mine))

    @pytest.mark.parametrize("options", [[], ["--json"], ["--concurrency", 3], ["--scenario", "ask"]], ids=str)
    @pytest.mark.parametrize("replay", ["all.json", "all/"])
    def test_every_number_of_processes_gives_the_same_bytes(self, run, busy, replay, options):
        reporters = [word for file in FILES for word in ("--reporter", f"{KINDS[file]}={file}")]
        arguments = ["test", "--replay", replay, "--repeat", 2, *options, *reporters]
        alone = run(*arguments), [Path(file).read_bytes() for file in FILES]
        assert alone[0][0] == (0 if options == ["--scenario", "ask"] else 1)
        for workers in (2, 3):
            assert (run(*arguments, "--workers", workers), [Path(file).read_bytes() for file in FILES]) == alone

    def test_the_same_conversations_start_within_a_budget(self, run, busy, write):
        write("offbook.toml", Path("offbook.toml").read_text() + "[run]\nbudget_usd = 1.2\nconcurrency = 3\n")
        arguments = ["test", "--replay", "all.json", "--repeat", 2, "--json"]
        alone = run(*arguments)
        assert 0 < alone[1].count("was spent before the conversation started") < 15
        assert run(*arguments, "--workers", 2) == alone

    def test_a_worker_that_ends_is_replaced_and_its_conversations_run_again(self, run, busy, write, caplog):
        turns, mocks = '["ask me"], mocks={"cancel": 1}', '["ask me", "die now"], mocks=MOCKS'
        write("sim_books.py", SUITE.replace(turns, mocks))
        arguments = ["test", "--replay", "all.json", "--repeat", 2, "--json"]
        alone = run(*arguments)
        assert alone[0] == 1
        write("now", "")
        assert run(*arguments, "--workers", 2) == alone
        assert not Path("now").exists()
        [record] = caplog.records
        assert "a worker process ended with exit code 3 during the conversation " in record.getMessage()

    def test_a_conversation_that_ends_every_worker_is_reported(self, run, busy, write, caplog):
        write("sim_end.py", 'from offbook import scenario\nscenario("ends", turns=["die"], conversations=2)\n')
        code, out, err = run("test", "--replay", "all.json", "--scenario", "ends", "--workers", 2)
        assert code == 1
        assert "error: a worker process ended with exit code 3 during the conversation 'ends/agent/" in err
        assert caplog.text.count("another one runs what it had") >= 2
        assert "ended early: this report is partial" in out

    def test_an_answer_that_two_conversations_may_get_is_refused(self, run, busy, record):
        for answer in ("a", "b", "c"):
            record("content.json", question="ask me", elsewhere=answer)
        assert run("test", "--replay", "content.json", "--scenario", "asks")[0] == 0
        code, _, err = run("test", "--replay", "content.json", "--scenario", "asks", "--workers", 2)
        assert code == 2
        assert "error: --workers: the step 'asks/agent/" in err
        assert "hint: which conversation gets it depends on their order: use --workers 1" in err

    def test_a_cluster_does_not_record(self, run, busy):
        code, _, err = run("test", "--record", "new.json", "--workers", "ray")
        assert code == 2
        assert "--record: a cluster has its own files" in err

    @pytest.mark.parametrize("replay", ["../all.json", "sqlite:///all.db"])
    def test_a_cluster_gets_the_working_directory_alone(self, run, busy, replay):
        Path("../all.json").write_bytes(Path("all.json").read_bytes())
        run("recording", "copy", "all.json", "sqlite:///all.db")
        code, _, err = run("test", "--replay", replay, "--workers", "ray://127.0.0.1:1")
        assert code == 2
        assert f"{replay}: it is not in the working directory" in err

    @pytest.mark.parametrize("workers", ["rya", "0", "-1", "2.5", ""])
    def test_what_is_no_number_is_refused(self, run, busy, workers):
        code, _, err = run("test", "--workers", workers)
        assert code == 2
        assert f"--workers: expected a number, auto, ray or ray://HOST:PORT, got {workers!r}" in err


@contextmanager
def held(write, *options):
    """`offbook test …` in a process of its own, whose model leaves the last turn of the second scenario unanswered."""
    with scenes.model() as model:
        model.hold("And 43?")
        write("my_agent.py", scenes.AGENT)
        write("offbook.toml", '[agent]\nhandler = "my_agent:think"\nprovider = "openai"\n')
        write("sim_orders.py", scenes.SIMULATED.replace('profile="a customer", goal', 'turns=["hi"], goal'))
        yield (
            subprocess.Popen(
                [COMMAND, "test", "--reporter", "json=report.json", *options],
                env=os.environ | {"OPENAI_BASE_URL": model.url, "PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ),
            model,
        )


class TestCutOff:
    def test_the_workers_end_too(self, write):
        with held(write, "--record", "all/", "--workers", "2") as (running, model):
            assert "finds an order" in running.stdout.readline()
            model.wait_until_holding("And 43?")
            workers = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            running.send_signal(signal.SIGINT)
            out, _ = running.communicate(timeout=TIMEOUT_S)
        assert running.returncode == 130
        assert "ended early" in out
        report = json.loads(Path("report.json").read_text())
        assert [each["name"] for each in report["scenarios"]] == ["finds an order"]
        assert len(workers) == 2
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
        assert sorted(each.name for each in Path("all").iterdir()) == ["asks-twice.json", "finds-an-order.json"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_what_had_ended_is_reported(self, write, number):
        with held(write, "--record", "all.json", "--concurrency", "1") as (running, model):
            model.wait_until_holding("And 43?")
            running.send_signal(number)
            out, err = running.communicate(timeout=TIMEOUT_S)
        assert running.returncode == 130
        assert "Traceback" not in err
        assert "ended early" in out
        report = json.loads(Path("report.json").read_text())
        assert [each["name"] for each in report["scenarios"]] == ["finds an order"]
        assert not report["passed"]
        assert "finds an order/agent/1/agent.answer" in json.loads(Path("all.json").read_text())


class TestPrompts:
    def test_every_prompt_is_shown_with_where_to_replace_it(self, run):
        code, out, _ = run("prompts")
        assert code == 0
        assert 'user: replace it with a file: [user] template = "user.txt"' in out
        assert "judge.helpfulness: replace it with your own metric" in out
        assert "judge.error_groups: used once a run, if something failed" in out

    def test_one_is_shown_by_its_name(self, run):
        _, out, _ = run("prompts", "verbosity")
        assert out.startswith("judge.verbosity: ")
        assert "by one criterion: verbosity" in out
        assert run("prompts", "judge.verbosity")[1] == out
        code, _, err = run("prompts", "judge.verbose")
        assert code == 2
        assert "did you mean 'judge.verbosity'?" in err
