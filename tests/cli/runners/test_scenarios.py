"""offbook test: calls without an answer."""

import json

import pytest

from tests.cli import scenes

CARELESS = """\
async def handle(messages, ctx):
    try:
        response = await ctx.provider.complete(messages, "m", step_id="answer")
        return response.content
    except Exception:
        return "All done!"


async def confused(messages, ctx):
    return ctx.provider.complete_sync(messages, "m").content
"""


class TestUnanswered:
    """A call without an answer is in the result, whoever caught its error."""

    @pytest.fixture
    def careless(self, write):
        write("my_agent.py", CARELESS)
        write("offbook.toml", scenes.CONFIG)
        write("empty.json", '{"_version": 2}')
        return write("sim_it.py", 'from offbook import scenario\nscenario("asks", turns="hi")\n')

    def test_a_replay_without_the_request_of_an_agent_that_swallows_errors_exits_with_3(self, run, careless):
        code, out, _err = run("test", "--replay", "empty.json")
        assert code == 3
        assert "mismatch: " in out
        assert "hint: record it again, or undo the change: offbook test --record empty.json --record-mode fresh" in out

    def test_repeated_conversations_miss_for_one_cause(self, run, careless):
        out = run("test", "--replay", "empty.json", "--repeat", "5")[1]
        (cause,) = [line for line in out.splitlines() if line.startswith("  high")]
        assert "asks/booking/…/" in cause
        assert "5 conversations" in cause
        assert out.count("mismatch: ") == 2  # of the scenario and of its cause
        assert "offbook test --repeat 5 --record empty.json --record-mode fresh" in out

    def test_real_models_are_announced_where_recordings_could_answer(self, run, careless, write):
        write("recordings/asks.json", '{"_version": 2}')
        announced = "note: real models answer; --replay recordings/ answers from the recordings"
        assert announced in run("test")[2]
        assert announced not in run("test", "--replay", "recordings/")[2]

    def test_the_hint_names_the_same_scenarios_and_leaves_json_alone(self, run, careless):
        code, out, err = run("test", "sim_it.py", "--scenario", "asks", "--replay", "empty.json", "--json")
        assert code == 3
        assert json.loads(out)["passed"] is False
        assert "offbook test sim_it.py --scenario asks --record empty.json --record-mode all" in err

    def test_a_model_call_of_an_agent_without_a_provider_fails_even_if_the_error_is_swallowed(self, run, careless):
        code, out, _err = run("test")
        assert code == 1
        assert "error: agent booking: the agent has no provider" in out

    def test_a_run_that_ends_with_an_error_prints_one_json_document(self, run, careless, write):
        write("offbook.toml", scenes.CONFIG.replace(":handle", ":confused"))
        code, out, _err = run("test", "--replay", "empty.json", "--json")
        assert code == 1
        assert json.loads(out)["error"]["type"] == "EventLoopError"
