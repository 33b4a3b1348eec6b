"""Tests that are explored: an item for each fault at each place of their recording."""

import json

import pytest

from offbook.pytest_plugin.markers import MARKER_ARGUMENTS
from offbook.pytest_plugin.options import EXPLORE_MARKER_HELP
from tests.pytest_plugin.conftest import printed_output

RECORDING = {
    "_version": 2,
    "hello": {"content": "Hello!"},
    "bye": {"content": "Bye!"},
    "_tools": {"refund": [{"arguments": {"order": 42}, "result": "paid"}]},
}
AGENT = """
from offbook import tool

HI = [{"role": "user", "content": "Hi"}]


@tool(side_effect=True)
def refund(order: int) -> str:
    raise AssertionError("the real tool must not run")



async def agent(provider, tools, tries=1):
    said = await provider.complete(HI, "m", step_id="hello")
    for left in reversed(range(tries)):
        try:
            paid = tools["refund"](order=42)
            break
        except Exception:
            if not left:
                raise
    bye = await provider.complete([{"role": "user", "content": said.content}], "m", step_id="bye")
    return f"{said.content} {paid} {bye.content}"
"""
SOUND = """
from agent import agent, refund

@pytest.mark.explore(recording="run.json", faults="connection_reset,tool_lost", declared=["ToolFaultError"])
def test_agent(offbook):
    assert offbook.run(agent(offbook.gateway, offbook.tools(refund))) == "Hello! paid Bye!"
"""


def assert_grouped(result, count, **outcomes):
    """So many items fail for the same cause as one that failed before, and the others end so."""
    counted = result.parseoutcomes()
    assert {**counted, "deselected": 0} == {**outcomes, "grouped": count, "deselected": 0}


@pytest.fixture
def explored(project):
    """A project with an agent, its recording, and a test of it that has no finding."""
    project.write("run.json", json.dumps(RECORDING))
    project.write("agent.py", AGENT)
    project.test(SOUND)
    return project


def names(result):
    return [line for line in result.stdout.lines if "::" in line]


def test_there_is_an_item_for_each_case_and_the_clean_run_is_the_first(explored):
    assert names(explored.run("--collect-only")) == [
        "test_it.py::test_agent[clean]",
        "test_it.py::test_agent[1 hello: connection_reset]",
        "test_it.py::test_agent[2 bye: connection_reset]",
        "test_it.py::test_agent[1 hello: connection_reset, always]",
        "test_it.py::test_agent[2 bye: connection_reset, always]",
        "test_it.py::test_agent[refund 1: tool_lost]",
        "test_it.py::test_agent[refund 1: tool_lost, always]",
    ]


def test_a_test_without_a_defect_passes_in_all_cases(explored):
    result = explored.run()
    result.assert_outcomes(passed=7)
    assert "0 recorded live, 0 missed" in printed_output(result)


def test_a_finding_is_reported_with_its_evidence_and_the_command_that_shows_it_again(explored):
    explored.test(SOUND.replace("tools(refund))", "tools(refund), tries=2)"))
    result = explored.run()
    assert_grouped(result, 1, passed=5, failed=1)
    assert "repeated effect: refund(order=42) ran 2 times instead of once" in printed_output(result)
    assert "fault: tool=refund call=1: tool_lost" in printed_output(result)
    assert "again: pytest 'test_it.py::test_agent[refund 1: tool_lost]'" in printed_output(result)


def test_each_cause_fails_one_item_unless_all_are_wanted_or_it_is_another_cause(explored):
    explored.test(SOUND.replace("tools(refund))", "tools(refund), tries=2)"))
    known = explored.run()
    assert_grouped(known, 1, passed=5, failed=1)
    assert "for the same cause as test_it.py::test_agent[refund 1: tool_lost]" in printed_output(known)
    summed_up = "1 item fails for the same cause as test_it.py::test_agent[refund 1: tool_lost], grouped (=)"
    assert f"{summed_up}; --runxfail shows them" in printed_output(known)
    assert "xfailed" not in printed_output(known)
    everything = explored.run("--runxfail")
    everything.assert_outcomes(passed=5, failed=2)
    assert "grouped" not in printed_output(everything)
    explored.run("-k", "always").assert_outcomes(passed=2, failed=1)
    wrong = SOUND.replace("connection_reset,tool_lost", "tool_garbled,tool_lost").replace(
        ', declared=["ToolFaultError"]', ""
    )
    explored.test(wrong)
    assert_grouped(explored.run(), 2, passed=1, failed=2)


def test_one_case_alone_is_judged_beside_a_clean_run_of_its_own(explored):
    explored.test(SOUND.replace("tools(refund))", "tools(refund), tries=2)"))
    explored.run("test_it.py::test_agent[refund 1: tool_lost]").assert_outcomes(failed=1)


def test_an_assertion_that_does_not_hold_is_a_failed_check(explored):
    explored.test(SOUND.replace("connection_reset,tool_lost", "tool_garbled"))
    result = explored.run()
    assert_grouped(result, 1, passed=1, failed=1)
    assert "undetected (failed check): assert 'Hello!" in printed_output(result)
    assert "Captured error call" in printed_output(result)
    assert "explored_test.py" not in printed_output(result)


def test_an_error_that_is_not_declared_is_a_crash(explored):
    explored.test(SOUND.replace(', declared=["ToolFaultError"]', "").replace("connection_reset,", ""))
    result = explored.run()
    assert_grouped(result, 1, passed=1, failed=1)
    assert "crashed: ToolFaultError" in printed_output(result)


def test_only_the_verdicts_that_are_named_fail_it(explored):
    careless = SOUND.replace("tools(refund))", "tools(refund), tries=2)")
    explored.test(careless.replace("faults=", "fail_on='hung', faults="))
    explored.run().assert_outcomes(passed=7)


def test_a_budget_limits_the_cases_and_classes_of_errors_are_declared(explored):
    declared = SOUND.replace('["ToolFaultError"]', "(ToolFaultError,)").replace("faults=", "budget=2, faults=")
    explored.test(f"from offbook.errors import ToolFaultError\n{declared}")
    result = explored.run()
    result.assert_outcomes(passed=3)
    assert "the budget left out 4 cases of run.json: 1 of connection_reset; 2 of connection_reset, always" in (
        printed_output(result)
    )


def test_after_the_time_of_a_budget_no_case_starts_and_the_most_telling_ones_were_first(explored):
    explored.test(SOUND.replace("faults=", "budget='0.000001s', faults="))
    assert names(explored.run("--collect-only"))[:3] == [
        "test_it.py::test_agent[clean]",
        "test_it.py::test_agent[refund 1: tool_lost]",
        "test_it.py::test_agent[1 hello: connection_reset]",
    ]
    result = explored.run("-rs")
    result.assert_outcomes(passed=1, skipped=6)
    assert "left out: the budget of 0.000001s is over" in printed_output(result)
    assert "the budget left out 6 cases of run.json: 1 of tool_lost; 2 of connection_reset" in printed_output(result)


def test_an_async_test_runs_in_virtual_time(explored):
    explored.test(
        """
from agent import agent, refund

@pytest.mark.explore(recording="run.json", faults="timeout", declared="ProviderTimeoutError")
async def test_agent(offbook):
    assert await agent(offbook.provider, offbook.tools(refund)) == "Hello! paid Bye!"
"""
    )
    result = explored.run("--durations=1")
    result.assert_outcomes(passed=5)


def test_async_tools_are_replayed_too_and_a_recording_may_be_a_path(explored):
    explored.test(
        """
from pathlib import Path

async def refund(order: int) -> str:
    raise AssertionError("the real tool must not run")

@pytest.mark.explore(recording=Path("run.json"), faults="tool_error", declared=["ToolFaultError"])
async def test_agent(offbook):
    assert await offbook.tools(refund)["refund"](order=42) == "paid"
    assert offbook.gateway is offbook.gateway
"""
    )
    explored.run().assert_outcomes(passed=3)


def test_fixtures_may_keep_the_provider_and_tools_and_other_parameters_are_kept_apart(explored):
    explored.test(
        """
from agent import agent, refund

@pytest.fixture
def ask(offbook):
    tools, provider = offbook.tools([refund]), offbook.provider
    return lambda: offbook.run(agent(provider, tools))

class TestAgent:
    @pytest.mark.parametrize("number", [1, 2])
    @pytest.mark.explore(recording="run.json", faults="tool_lost", declared="ToolFaultError")
    def test_agent(self, ask, number):
        assert ask() == "Hello! paid Bye!"
"""
    )
    result = explored.run("-k", "tool_lost")
    result.assert_outcomes(passed=4)


def test_a_clean_run_that_fails_is_reported_as_it_is_once(explored):
    explored.test(SOUND.replace("Hello! paid Bye!", "Hello!"))
    result = explored.run()
    assert_grouped(result, 6, failed=1)
    assert "> " in printed_output(result)
    alone = explored.run("-k", "hello")
    assert_grouped(alone, 1, failed=1)
    assert "the run fails without any fault: AssertionError" in printed_output(alone)


def test_a_clean_run_that_asks_what_was_never_recorded_is_reported(explored):
    explored.write("run.json", json.dumps({name: entry for name, entry in RECORDING.items() if name != "bye"}))
    explored.test(SOUND.replace("    assert", "    with pytest.raises(Exception):\n        assert"))
    result = explored.run("-k", "clean")
    result.assert_outcomes(failed=1)
    assert "step 'bye' is not in the recording" in printed_output(result)


def test_a_test_can_be_cancelled_but_its_recording_does_not_show_orders(explored):
    explored.test(SOUND.replace("connection_reset,tool_lost", "cancelled"))
    explored.run().assert_outcomes(passed=5)
    explored.test(SOUND.replace("connection_reset,tool_lost", "all,orders"))
    result = explored.run()
    result.assert_outcomes(errors=1)
    assert "which does not show which calls overlap" in printed_output(result)


RECORDED = """
@pytest.mark.explore(faults="connection_reset")
def test_greets(offbook):
    offbook.live(Echo)
    response = offbook.run(offbook.gateway.complete(ADA, "m", step_id="greet"))
    assert response.content == "Hello Ada"
"""


def test_without_a_recording_there_is_the_clean_run_alone_which_makes_it(project):
    project.test(RECORDED)
    assert names(project.run("--collect-only")) == ["test_it.py::test_greets[clean]"]
    assert "no such recording" in printed_output(project.run())
    project.record().assert_outcomes(passed=1)
    assert project.recordings() == ["test_it/test_greets.json"]
    project.run().assert_outcomes(passed=3)
    project.run("--offbook-record=all").assert_outcomes(passed=1)


USES = """
from agent import refund

@pytest.mark.explore(recording="run.json", faults="tool_lost")
def test_uses(offbook):
    {use}
    offbook.tools(refund)["refund"](order=42)
"""


def test_what_an_explored_test_cannot_use_is_refused(explored):
    use = """
    with pytest.raises(Exception, match="the faults of an explored test come from its case"):
        offbook.faults("call=1: timeout")
    with pytest.raises(Exception, match="servers for other programs are not explored in a test"):
        offbook.serving()
    with pytest.raises(Exception, match="MCP servers are not explored in a test"):
        offbook.mcp("notes")
    with pytest.raises(AttributeError, match="has no attribute 'typo'"):
        offbook.typo
"""
    explored.test(USES.format(use=use))
    explored.run("-k", "clean").assert_outcomes(passed=1)


def test_the_fixture_reports_what_it_is(explored):
    use = "assert (offbook.is_recording, offbook.unused(), offbook.calls) == (False, [], [])\n"
    explored.test(USES.format(use=use + "    assert 'exploring' in repr(offbook) and 'run.json' in offbook.recording"))
    explored.run("-k", "clean").assert_outcomes(passed=1)


def test_nothing_is_asked_while_fixtures_are_set_up(explored):
    explored.test(
        """
@pytest.fixture
def early(offbook):
    {use}

@pytest.mark.explore(recording="run.json", faults="tool_lost")
def test_early(early):
    pass
""".replace("{use}", "offbook.run(asyncio.sleep(1))")
    )
    assert "no coroutine runs before the test does" in printed_output(explored.run("-k", "clean"))
    explored.test((explored.folder / "test_it.py").read_text().replace("run(asyncio.sleep(1))", "gateway"))
    assert "no call is answered before the test runs" in printed_output(explored.run("-k", "clean"))


WRONG_MARKERS = {
    "test_positional.py": ("'run.json'", "it takes no positional arguments"),
    "test_unknown.py": ("fault='all'", "unknown argument 'fault'"),
    "test_no_fault.py": ("faults='timeot'", "there is no fault 'timeot' to try"),
    "test_type.py": ("budget='many'", "budget: expected a number of cases or a time, got 'many'"),
    "test_verdict.py": ("fail_on=['hug']", "fail_on: there is no verdict 'hug'"),
}


def test_a_wrong_marker_fails_its_test_and_no_other(project):
    for file, (arguments, _) in WRONG_MARKERS.items():
        other = "def test_other():\n    pass\n"
        project.test(f"@pytest.mark.explore({arguments})\ndef test_wrong(offbook):\n    pass\n\n{other}", path=file)
    result = project.run()
    result.assert_outcomes(errors=len(WRONG_MARKERS), passed=len(WRONG_MARKERS))
    assert "Traceback" not in printed_output(result)
    for _, reason in WRONG_MARKERS.values():
        assert reason in printed_output(result)


NOT_EXPLORED = """
class TestPlain:
    pytestmark = pytest.mark.explore

    def test_other(self):
        pass

@pytest.mark.explore{arguments}
def test_idle({fixture}):
    pass
"""


@pytest.mark.parametrize(
    ("fixture", "arguments", "outcomes", "problem"),
    [
        ("", "", {"errors": 1}, "it does not use offbook\n  hint: def test_idle(offbook): …"),
        (
            "offbook",
            '(recording="run.json", faults="tool_lost")',
            {"failed": 1, "grouped": 2},
            "the run made no call that could fail",
        ),
        ("offbook", "", {"failed": 1}, "the run made no call that could fail"),
    ],
    ids=["no fixture", "recorded", "not recorded"],
)
def test_a_test_that_explores_nothing_fails_unless_its_class_alone_is_marked(
    explored, fixture, arguments, outcomes, problem
):
    explored.test(NOT_EXPLORED.format(fixture=fixture, arguments=arguments))
    result = explored.run()
    assert result.parseoutcomes() == {"passed": 1, **outcomes}
    assert problem in printed_output(result)


SERVED_TEST = """
@pytest.mark.explore
def test_asks(offbook):
    offbook.{used}
"""


@pytest.mark.parametrize("used", ["serving()", "mcp('notes', tools=[])"])
def test_servers_are_refused_before_anything_is_recorded(project, used):
    project.test(SERVED_TEST.format(used=used))
    result = project.record()
    result.assert_outcomes(failed=1)
    assert "are not explored in a test" in printed_output(result)
    assert "offbook explore --replay PATH -- COMMAND" in printed_output(result)


REMEMBERS = """
from agent import HI

ANSWERS = {{}}

async def agent(provider):
    if "hello" not in ANSWERS:
        try:
            ANSWERS["hello"] = await provider.complete(HI, "m", step_id="hello")
        except ConnectionError:
            pass
    return ANSWERS["hello"].content

@pytest.mark.explore(recording="run.json", faults="connection_reset", budget=1{more})
def test_agent(offbook):
    assert offbook.run(agent(offbook.provider)) == "Hello!"
"""


@pytest.mark.parametrize(("more", "outcomes"), [("", {"passed": 1, "failed": 1}), (", isolated=False", {"passed": 2})])
def test_what_a_module_remembers_hides_no_case_unless_all_run_in_one_process(explored, more, outcomes):
    explored.test(REMEMBERS.format(more=more))
    result = explored.run()
    result.assert_outcomes(**outcomes)
    assert ("crashed: KeyError" in printed_output(result)) is (more == "")


@pytest.mark.parametrize(("style", "has_all"), [("auto", False), ("long", True)])
def test_a_crash_shows_the_frames_of_the_project_alone_unless_a_style_is_chosen(explored, style, has_all):
    explored.test(REMEMBERS.format(more=""))
    shown = printed_output(explored.run(f"--tb={style}"))
    assert 'return ANSWERS["hello"].content' in shown
    assert ("asyncio/runners.py" in shown) is has_all


@pytest.mark.parametrize(
    ("ending", "finding"),
    [
        ("raise SystemExit(3)", "crashed: SystemExit: it called sys.exit(3)"),
        ("os._exit(7)", "crashed: ProcessEnded: the process ended with exit status 7"),
        ("os.abort()", "crashed: ProcessEnded: signal 6 ended the process"),
        (
            "while True:\n                try: time.sleep(1)\n                except BaseException: pass",
            "hung: it had not ended after 3600 s; it waited in agent.py:",
        ),
    ],
)
def test_however_a_case_ends_it_is_an_ending_of_this_case_alone(explored, ending, finding):
    agent = AGENT.replace("if not left:\n                raise", ending)
    assert agent != AGENT
    explored.write("agent.py", f"import os\nimport time\n{agent}")
    result = explored.run()
    assert_grouped(result, 1, passed=5, failed=1)
    assert finding in printed_output(result)


SPEAKS = """
import logging

@pytest.mark.explore(recording="run.json", faults="tool_lost")
def test_speaks(offbook):
    print("printed by", "the case")
    logging.getLogger("agent").warning("logged by %s", "the case")
    {end}
"""


@pytest.mark.parametrize("capture", ["--capture=fd", "--capture=sys", "--capture=tee-sys", "--capture=no"])
def test_what_a_case_prints_and_logs_is_in_its_report(explored, capture):
    explored.test(SPEAKS.format(end="raise ValueError(1 + 1)"))
    result = explored.run("-k", "clean", capture)
    result.assert_outcomes(failed=1)
    for text in ("printed by the case", "logged by the case", "ValueError: 2"):
        assert text in printed_output(result)


@pytest.mark.parametrize(
    ("end", "outcomes"),
    [("pytest.skip('not here')", {"skipped": 1}), ("pytest.xfail('not yet')", {"xfailed": 1})],
)
def test_a_test_may_skip_itself(explored, end, outcomes):
    explored.test(SPEAKS.format(end=end))
    result = explored.run("-k", "clean", "-rsx")
    result.assert_outcomes(**outcomes)
    assert "not " in printed_output(result)


def test_every_run_starts_from_what_the_fixtures_have_made(explored):
    explored.test(
        """
from agent import refund

@pytest.fixture
def numbers():
    return [1]

@pytest.mark.explore(recording="run.json", faults="tool_lost", declared="ToolFaultError")
def test_speaks(offbook, numbers, capsys):
    numbers.append(2)
    print(numbers)
    assert capsys.readouterr().out == "[1, 2]\\n"
    offbook.tools(refund)["refund"](order=42)
"""
    )
    explored.run("-k", "always").assert_outcomes(passed=1)  # after a clean run with the same fixtures


@pytest.mark.parametrize(
    ("more", "arguments", "is_forked"),
    [("", (), True), (", isolated=False", (), False), ("", ("--pdb", "--pdbcls=bdb:Bdb"), False)],
)
def test_every_run_is_forked_unless_it_is_debugged_or_must_not_be(explored, more, arguments, is_forked):
    explored.test(
        f"""
import os
from agent import refund
PID = os.getpid()

@pytest.mark.explore(recording="run.json", faults="tool_lost"{more})
def test_agent(offbook):
    assert (os.getpid() != PID) is {is_forked}
    offbook.tools(refund)["refund"](order=42)
"""
    )
    explored.run("-k", "clean", *arguments).assert_outcomes(passed=1)


TELLS_ITS_MODEL = """
from agent import HI
from offbook import tool

@tool(side_effect=True)
def refund(order: int) -> str:
    return "paid"

async def agent(provider, tools):
    for _ in range(3):
        try:
            told = tools["refund"](order=42)
        except Exception as error:
            told = f"failed: {error}"
        bye = await provider.complete([{"role": "user", "content": told}], "m", step_id="bye")
        if told == "paid":
            return bye.content
    raise RuntimeError("gave up")

@pytest.mark.explore(faults="tool_lost"{more})
def test_agent(offbook):
    offbook.live(Echo)
    offbook.run(agent(offbook.provider, offbook.tools(refund)))
"""
LOST = "test_it.py::test_agent[refund 1: tool_lost]"


@pytest.mark.parametrize(("more", "outcomes"), [("", {"failed": 1}), (', on_divergence="stop"', {"passed": 1})])
def test_a_request_that_was_never_recorded_is_answered_along_the_recording(explored, more, outcomes):
    explored.test(TELLS_ITS_MODEL.replace("{more}", more))
    explored.record().assert_outcomes(passed=1)
    result = explored.run(LOST)
    result.assert_outcomes(**outcomes)
    assert ("repeated effect: refund(order=42) ran" in printed_output(result)) is (more == "")


def test_a_misspelt_name_of_what_it_may_go_on_without_is_refused(explored):
    explored.test(SOUND.replace("faults=", 'optional=["refnd", "notify"], faults='))
    result = explored.run("-k", "clean")
    result.assert_outcomes(failed=1)
    assert "there is no step or tool 'refnd'\n  hint: did you mean 'refund'?" in printed_output(result)


@pytest.mark.parametrize("declared", ["read_only", "side_effects", "idempotent"])
def test_a_misspelt_name_of_a_tool_is_refused_and_one_that_may_run_later_is_not(explored, declared):
    explored.test(SOUND.replace("faults=", f'{declared}=["refundd", "cancel"], faults='))
    result = explored.run("-k", "clean")
    result.assert_outcomes(failed=1)
    assert "there is no tool 'refundd'\n  hint: did you mean 'refund'?" in printed_output(result)
    explored.test(SOUND.replace("faults=", f'{declared}=["cancel"], faults='))
    explored.run("-k", "clean").assert_outcomes(passed=1)


def test_the_config_says_what_tools_do_and_what_the_agent_may_raise(explored):
    explored.write("offbook.toml", "[tools.refundd]\neffect = true\n[tools.refund]\nread_only = true\n")
    explored.test(TELLS_ITS_MODEL.replace("{more}", "").replace("@tool(side_effect=True)", "@tool"))
    explored.record().assert_outcomes(passed=1)
    explored.run(LOST).assert_outcomes(passed=1)
    explored.write("offbook.toml", "[tools.refund]\neffect = true\n")
    explored.run(LOST).assert_outcomes(failed=1)
    explored.write("offbook.toml", '[tools.refund]\neffect = true\n[explore]\non_divergence = "stop"\n')
    explored.run(LOST).assert_outcomes(passed=1)
    explored.write("offbook.toml", "[explore]\ndeadlin = 3\n")
    result = explored.run(LOST.partition("[")[0])
    assert "explore.deadlin: unknown key 'deadlin'" in printed_output(result)


def test_the_help_of_the_marker_names_its_arguments():
    assert [name for name in MARKER_ARGUMENTS if f"{name}=" not in EXPLORE_MARKER_HELP] == []


def test_a_test_fails_if_none_of_its_faults_can_fire(explored):
    explored.test(SOUND.replace("faults=", 'budget=3, faults="stream_stall") #'))
    result = explored.run()
    result.assert_outcomes(errors=1)
    assert "no call of the run can fail so: stream_stall" in printed_output(result)


def test_a_call_that_the_test_may_go_on_without_is_no_finding(explored):
    careless = """
from agent import HI

def refund(order: int) -> str:
    raise AssertionError("the real tool must not run")

@pytest.mark.explore(recording="run.json", faults="tool_error", fail_on="went on without"{more})
def test_agent(offbook):
    try:
        offbook.tools(refund)["refund"](order=42)
    except Exception:
        pass
    offbook.run(offbook.provider.complete(HI, "m", step_id="hello"))
"""
    explored.test(careless.replace("{more}", ""))
    assert_grouped(explored.run(), 1, passed=1, failed=1)
    explored.test(careless.replace("{more}", ", optional='refund'"))
    explored.run().assert_outcomes(passed=3)


SDK_RECORDING = {
    "_version": 2,
    "agent": [
        {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order": 42}}]},
        {"content": "Done."},
    ],
}
SDK_AGENT = """
import json
import openai
from offbook import effect

REFUND = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}


def ask(client):
    messages = [{"role": "user", "content": "Refund order 42"}]
    while True:
        said = client.chat.completions.create(model="m", messages=messages, tools=[REFUND]).choices[0].message
        if not said.tool_calls:
            return said.content
        call = said.tool_calls[0]
        effect("refund", **json.loads(call.function.arguments))
        asked = {"id": call.id, "type": "function", "function": call.function.model_dump()}
        messages.append({"role": "assistant", "tool_calls": [asked]})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "done"})
"""
SDK_TEST = """
import openai
from agent import ask

@pytest.fixture
def client(offbook):
    return openai.OpenAI(api_key="none", http_client=offbook.sync_http_client(), max_retries=1)

@pytest.mark.explore(recording="run.json", faults="connection_reset", declared=[openai.APIError])
def test_refund(client):
    {ask}
"""
STARTS_OVER = "try: assert ask(client) == 'Done.'\n    except openai.APIError: assert ask(client) == 'Done.'"


@pytest.mark.loads_sdk
@pytest.mark.parametrize(
    ("ask", "outcomes"),
    [("assert ask(client) == 'Done.'", {"passed": 5}), (STARTS_OVER, {"passed": 4, "failed": 1})],
    ids=["sound", "careless"],
)
def test_an_agent_on_an_sdk_is_explored_with_a_client_that_a_fixture_makes(project, ask, outcomes):
    project.write("run.json", json.dumps(SDK_RECORDING))
    project.write("agent.py", SDK_AGENT)
    project.test(SDK_TEST.format(ask=ask))
    result = project.run()
    result.assert_outcomes(**outcomes)
    is_found = "repeated effect: refund(order=42) ran 2 times instead of once" in printed_output(result)
    assert is_found is ("failed" in outcomes)


INTERCEPTED_TEST = """
import httpx2

URL = "https://api.openai.com/v1/chat/completions"

def ask():
    client = httpx2.Client(verify=False)
    return client.post(URL, json={"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).text

@pytest.mark.explore(recording="run.json", faults="connection_reset", declared=[httpx2.TransportError])
def test_greets(offbook):
    offbook.intercept()
    try: assert "Hello" in ask()
    except httpx2.ReadError: assert "Hello" in ask()
"""


def test_a_client_that_nobody_is_given_is_explored_where_it_is_intercepted(project):
    project.write("run.json", json.dumps({"_version": 2, "agent": {"content": "Hello"}}))
    project.test(INTERCEPTED_TEST)
    project.run().assert_outcomes(passed=3)


STREAMED_TEST = """
import httpx2
import openai

CHUNKS = [{"delta": {"content": "Hel"}}, {"delta": {"content": "lo"}}, {"delta": {}, "finish_reason": "stop"}]
BODY = "".join("data: " + json.dumps({"choices": [{"index": 0, **each}]}) + "\\n\\n" for each in CHUNKS)
EVENTS = {"content-type": "text/event-stream"}
network = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=EVENTS, text=BODY + "data: [DONE]\\n\\n"))

@pytest.mark.explore(faults="stream_truncate")
async def test_greets(offbook):
    client = openai.AsyncOpenAI(api_key="none", http_client=offbook.http_client(network), max_retries=0)
    said = [{"role": "user", "content": "Hi"}]
    chunks = await client.chat.completions.create(model="m", messages=said, stream=True)
    text = "".join([choice.delta.content or "" async for chunk in chunks for choice in chunk.choices])
    assert text == "Hello"
"""


@pytest.mark.loads_sdk
def test_an_async_test_is_recorded_over_http_and_explored_at_each_position_of_its_streams(project):
    project.test("import json\n" + STREAMED_TEST)
    project.run("--offbook-record=once").assert_outcomes(passed=1)
    items = names(project.run("--collect-only"))
    assert "test_it.py::test_greets[1: stream_truncate cut, text]" in items
    result = project.run()
    assert "undetected (failed check): assert '" in printed_output(result)


@pytest.mark.loads_sdk
def test_a_stream_that_the_recording_does_not_show_is_warned_of(project):
    project.write("run.json", json.dumps({"_version": 2, "agent": {"content": "Hello"}}))
    test = STREAMED_TEST.replace('faults="stream_truncate"', 'recording="run.json"')
    project.test("import json\n" + test)
    result = project.run("-k", "clean")
    assert "no fault is tried inside streams" in printed_output(result)


PAYS_TWICE = """
from agent import HI, refund

BALANCE = []

def balance():
    return {"paid": sorted(set(BALANCE))}

@pytest.mark.explore(recording="run.json", faults="tool_lost", state=balance)
def test_agent(offbook):
    offbook.run(offbook.provider.complete(HI, "m", step_id="hello"))
    tools = offbook.tools(refund)
    for _ in range(3):
        try:
            BALANCE.append(42)
            tools["refund"](order=42)
            break
        except Exception:
            continue
"""


def test_an_explored_test_may_say_what_state_is(project):
    project.write("run.json", json.dumps(RECORDING))
    project.write("agent.py", AGENT)
    project.test(PAYS_TWICE)
    project.run("-k", "lost and not always").assert_outcomes(passed=1, deselected=2)
    project.test(PAYS_TWICE.replace("sorted(set(BALANCE))", "BALANCE"))
    result = project.run("-k", "lost and not always")
    result.assert_outcomes(failed=1, deselected=2)
    project.test(PAYS_TWICE.replace("state=balance", "state=3"))
    project.run().stdout.fnmatch_lines(["*mark.explore: state: expected a synchronous function, got 3*"])
