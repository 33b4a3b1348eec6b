"""Scenarios as test items."""

import json

import pytest

from tests.pytest_plugin.conftest import printed_output
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer

AGENT = """
import asyncio

async def handle(messages, ctx):
    says = messages[-1]["content"]
    if says == "wait":
        await asyncio.sleep(100)
    if says == "think":
        return (await ctx.provider.complete(messages, model="m")).content
    return f"Booked: {await ctx.resolve_tool('create_booking', {'time': says})}"
"""
SCENARIOS = """
from offbook import Trajectory, expected
from offbook.scenarios import scenario

BOOKS = {"create_booking": {"id": "BK-1"}}

scenario("user books a morning slot", turns=["09:00"], mocks=BOOKS,
         assertions=Trajectory("strict", [expected("create_booking", args={"time": "09:00"})]))
"""
THINKS = 'from offbook.scenarios import scenario\n\nscenario("thinks aloud", turns=["think"])\n'


@pytest.fixture
def shop(project):
    """A project with an agent that books."""
    project.write("shop_agent.py", AGENT)
    config = '[agent]\nhandler = "shop_agent:handle"\nprovider = "openai"\nbase_url = "${SHOP_URL}"\n'
    project.write("offbook.toml", config)
    return project


def test_each_scenario_is_an_item_that_can_be_run_alone(shop):
    shop.write("sim_booking.py", SCENARIOS + 'scenario("user waits", turns=["wait"], mocks=BOOKS)\n')
    shop.test("def test_other():\n    pass\n")
    shop.run().assert_outcomes(passed=3)
    result = shop.run("-vv", "sim_booking.py::user books a morning slot")
    result.assert_outcomes(passed=1)
    assert "sim_booking.py::user books a morning slot PASSED" in printed_output(result)


def test_a_failing_scenario_shows_the_difference_and_the_conversation_but_no_traceback(shop):
    wrong = SCENARIOS.replace('args={"time": "09:00"}', 'args={"time": "10:00"}')
    shop.write("sim_booking.py", wrong)
    result = shop.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ user books a morning slot _*",
            "assertion: arguments differ: call 1, create_booking: time: expected '10:00', got '09:00'",
            "*expected (strict)*actual*",
            "*Captured conversation call*",
            "conversation 1 with agent: script_done",
            "  user:  09:00",
            "  tool:  create_booking({'time': '09:00'})",
            "  agent: Booked: {'id': 'BK-1'}",
        ]
    )
    assert "Traceback" not in printed_output(result)
    assert "scenario_item.py" not in printed_output(result)


def test_a_scenario_is_recorded_from_the_agents_provider_and_then_replayed(shop, monkeypatch):
    shop.write("sim_thinking.py", THINKS)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with LoopbackServer(chat_answer("Hm.")) as server:
        monkeypatch.setenv("SHOP_URL", f"{server.url}/v1")
        result = shop.record()
        result.assert_outcomes(passed=1)
        assert "0 calls served from recordings, 1 recorded live, 0 missed" in printed_output(result)
    monkeypatch.delenv("SHOP_URL")
    assert shop.recordings() == ["thinks-aloud.json"]
    result = shop.run("--offbook-strict-unused", "--offbook-report-unused")
    result.assert_outcomes(passed=1)
    assert "1 call served from recordings, 0 recorded live, 0 missed" in printed_output(result)
    assert "no test used" not in printed_output(result)


def test_a_scenario_that_fails_keeps_no_recording(shop, monkeypatch):
    shop.write("sim_thinking.py", THINKS.replace('["think"]', '["think", "09:00"]'))
    with LoopbackServer(chat_answer("Hm.")) as server:
        monkeypatch.setenv("SHOP_URL", f"{server.url}/v1")
        result = shop.record()
    result.assert_outcomes(failed=1)
    assert shop.recordings() == []


def test_a_scenario_without_its_recording_says_how_to_record_it(shop):
    shop.write("sim_thinking.py", THINKS)
    result = shop.run()
    result.assert_outcomes(failed=1)
    assert "recordings/thinks-aloud.json: no such recording" in printed_output(result)
    assert "hint: record it: pytest 'sim_thinking.py::thinks aloud' --offbook-record=once" in printed_output(result)


def test_a_scenario_that_leaves_entries_unused_fails_if_asked_for(shop):
    shop.write("sim_thinking.py", THINKS)
    entries = {"thinks aloud/agent/1/agent": {"content": "Hm."}, "thinks aloud/agent/1/user": {"content": "?"}}
    shop.write("recordings/thinks-aloud.json", json.dumps({"_version": 2} | entries))
    shop.run().assert_outcomes(passed=1)
    result = shop.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)
    assert "1 entry not used: thinks aloud/agent/1/user[0]" in printed_output(result)


def test_a_scenario_that_cannot_be_held_says_why_without_a_traceback(shop):
    shop.write("sim_booking.py", SCENARIOS + 'scenario("nobody", goal="to book")\n')
    result = shop.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "there is no model to simulate the user" in printed_output(result)
    assert "Traceback" not in printed_output(result)


def test_an_agent_that_the_config_names_wrongly_is_reported_without_a_traceback(shop):
    shop.write("offbook.toml", '[agent]\nhandler = "shop_agent:hanlde"\n')
    shop.write("sim_booking.py", SCENARIOS)
    result = shop.run()
    result.assert_outcomes(failed=1)
    assert "there is no 'hanlde' in shop_agent" in printed_output(result)
    assert "Traceback" not in printed_output(result)


def test_a_mistake_inside_a_conversation_is_reported_without_a_traceback(shop):
    shop.write("shop_agent.py", AGENT.replace("await ctx.provider.complete(", "ctx.provider.complete_sync("))
    shop.write("sim_thinking.py", THINKS)
    result = shop.run()
    result.assert_outcomes(failed=1)
    assert "an event loop is already running here; await the call" in printed_output(result)
    assert "Traceback" not in printed_output(result)


WRONG_FILES = {
    "sim_fails.py": (SCENARIOS + "1 / 0\n", "ZeroDivisionError"),
    "sim_bad.py": (SCENARIOS + "scenario('bad')\n", "neither a goal"),
    "sim_twice.py": (SCENARIOS + SCENARIOS, "there is another scenario named 'user books a morning slot'"),
    "sim_syntax.py": ("from offbook import (\n", "SyntaxError"),
}


def test_a_file_that_declares_no_scenarios_rightly_is_an_error_of_collection(shop):
    for name, (text, _) in WRONG_FILES.items():
        shop.write(name, text)
    result = shop.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=len(WRONG_FILES))
    assert "scenario_item.py" not in printed_output(result)
    sections = printed_output(result).split("ERROR collecting ")
    for name, (_, reason) in WRONG_FILES.items():
        assert any(section.startswith(name) and reason in section for section in sections), name


def test_scenarios_without_a_config_are_an_error_of_collection_that_shows_one(project):
    project.write("sim_booking.py", SCENARIOS)
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "there is no offbook.toml here or above" in printed_output(result)


def test_files_of_others_that_happen_to_be_called_sim_are_left_alone(project):
    project.write("sim_physics.py", "raise SystemExit('a simulation of days')\n")
    project.write("sim_notes.txt", "offbook")
    project.test("def test_it():\n    pass\n")
    project.run().assert_outcomes(passed=1)


def test_a_module_that_scenarios_import_is_the_one_beside_them(shop):
    for name, answer in (("north", "N"), ("south", "S")):
        shop.write(f"{name}/branch.py", f"ANSWER = {answer!r}\n")
        shop.write(f"{name}/sim_{name}.py", f"import branch\n{SCENARIOS}\nassert branch.ANSWER == {answer!r}\n")
    shop.run().assert_outcomes(passed=2)


@pytest.mark.parametrize("careless", [False, True])
def test_a_request_that_has_changed_fails_the_scenario_with_a_hint_even_if_the_agent_swallows_the_error(shop, careless):
    if careless:
        shop.write("thinker.py", AGENT)
        swallow = "import thinker\n\nasync def handle(messages, ctx):\n    try:\n"
        swallow += (
            "        return await thinker.handle(messages, ctx)\n    except Exception:\n        return 'All done!'\n"
        )
        shop.write("shop_agent.py", swallow)
    shop.write("sim_thinking.py", THINKS)
    request = {"messages": [{"role": "user", "content": "Hm?"}], "model": "m"}
    answer = {"content": "Hm.", "request": request, "request_hash": "0" * 64}
    recording = json.dumps({"_version": 2, "thinks aloud/agent/1/agent": [answer]})
    shop.write("recordings/thinks-aloud.json", recording)
    result = shop.run()
    result.assert_outcomes(failed=1)
    again = "pytest 'sim_thinking.py::thinks aloud' --offbook-record=fresh"
    result.stdout.fnmatch_lines(["mismatch: *", f"  hint: record the test again, or undo the change: {again}"])


MCP_AGENT = """
import json, os, subprocess

def handle(messages, ctx):
    server = ctx.mcp["notes"].config
    params = {"name": "write", "arguments": {"text": messages[-1]["content"]}}
    command, env = [server["command"], *server["args"]], os.environ | server["env"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        print(json.dumps(asked), file=client.stdin, flush=True)
        answer = json.loads(client.stdout.readline())
    return answer["result"]["content"][0]["text"] if "result" in answer else "swallowed"
"""
NOTES = """
from offbook import Trajectory, expected, scenario

for text in ("tea", "milk"):
    written = expected("notes.write", args={"text": text})
    scenario(f"notes {text}", turns=[text], assertions=Trajectory("strict", [written]))
"""


def test_the_mcp_servers_of_an_agent_are_replayed_and_not_recorded(project):
    project.write("note_agent.py", MCP_AGENT)
    project.write("offbook.toml", '[agent]\nhandler = "note_agent:handle"\nmcp = ".mcp.json"\n')
    project.write(".mcp.json", '{"mcpServers": {"notes": {"command": "no-such-server"}}}')
    project.write("sim_notes.py", NOTES)
    calls = {"notes tea/agent/1/notes.write": [{"arguments": {"text": "tea"}, "result": "noted"}]}
    project.write("recordings/notes-tea.json", json.dumps({"_version": 2, "_tools": calls}))
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "mismatch: " in printed_output(result)
    assert "'notes milk/agent/1/notes.write' is not in the recording" in printed_output(result)
    result = project.run("--offbook-record=fresh")
    result.assert_outcomes(failed=2)
    assert "offbook test --record recordings/ records them" in printed_output(result)
