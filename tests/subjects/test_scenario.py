"""Scenarios as subjects: one conversation on a harness, its tools mocked."""

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import DEFAULT_SETTINGS, ExploreSettings
from offbook.faults import FaultPlan
from offbook.subjects.specs import ScenarioSpec, open_subject
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer
from tests.subjects.projects import CONFIG, DESK, EAGER_DESK, SIM, SIM_ANSWERS


def spec(files, **more):
    sim, recording = files
    return ScenarioSpec(recording=str(recording), file=str(sim), scenario="refunds", agent="desk", **more)


def verdicts(files, faults="all", *, settings=DEFAULT_SETTINGS):
    with open_subject(spec(files), settings) as subject:
        explored = Explorer(subject, ExploreOptions(variants=select_variants(faults))).explore()
    return {str(each.case): each for each in explored.results}


def clean(files, *, settings=DEFAULT_SETTINGS):
    with open_subject(spec(files), settings) as subject:
        return subject.run(FaultPlan())


def test_a_clean_run_is_the_conversation(project):
    run = clean(project.scenario())
    assert run.result == {"ending": "script_done", "turns": [{"user": "Order 42 never came", "agent": "Paid."}]}
    assert [call.step_id for call in run.calls] == ["agent.plan", "agent.say"]
    assert [(each.tool, each.side_effect, each.has_run) for each in run.tools] == [("refund", True, True)]
    assert run.error is None
    assert run.broken == ()


def test_what_the_agent_does_to_recover_is_in_place_and_counted(project):
    each = verdicts(project.scenario(), "connection_reset")["step=agent.plan call=1 attempt=1: connection_reset"]
    assert each.title == "recovered"
    assert each.run.paths == {"retry": 1}


def test_an_agent_that_gives_up_has_failed_cleanly_and_broken_nothing(project):
    each = verdicts(project.scenario(), "http_error 500")["step=agent.plan call=1: http_error 500"]
    assert each.title == "failed cleanly"
    assert each.run.error.type == "AllProvidersFailedError"
    assert each.run.broken == ()


def test_an_agent_that_refunds_until_it_hears_of_it_repeats_a_side_effect(project):
    found = verdicts(project.scenario(desk=EAGER_DESK), "tool_lost,tool_error")
    assert {name: each.title for name, each in found.items()} == {
        "tool=refund call=1: tool_error": "undetected (failed check)",
        "tool=refund: tool_error": "hung",
        "tool=refund call=1: tool_lost": "repeated effect",
        "tool=refund: tool_lost": "repeated effect",
    }
    assert "refund" in found["tool=refund call=1: tool_error"].run.broken[0]


def test_an_agent_that_raises_has_crashed_unless_the_error_is_declared(project):
    desk = DESK.replace("    said =", "    paid['paid'] + 0\n    said =")
    files = project.scenario(desk=desk)
    each = verdicts(files, "tool_error")["tool=refund call=1: tool_error"]
    assert each.title == "crashed"
    assert each.run.error.type == "KeyError"
    declared = verdicts(files, "tool_error", settings=ExploreSettings(declared=("KeyError",)))
    assert {each.title for each in declared.values()} == {"failed cleanly"}


def test_an_agent_that_answers_nothing_has_crashed(project):
    desk = DESK.replace("return said.content", "return said.content or None")
    each = verdicts(project.scenario(desk=desk), "empty_response")["step=agent.say call=1 attempt=1: empty_response"]
    assert each.title == "crashed"
    assert each.run.error.type == "TargetError"


def test_faulty_results_of_tools_are_not_held_against_the_schemas_of_mocks(project):
    sim = SIM.replace("    side_effects", '    schemas={"refund": refund},\n    side_effects')
    sim = sim.replace("scenario(\n", "def refund(order: int) -> dict[str, int]:\n    return {}\n\nscenario(\n", 1)
    found = verdicts(project.scenario(sim=sim), "tool_garbled,tool_empty")
    assert {each.title for each in found.values()} == {"failed partway"}
    assert all(each.run.tools[0].error is None for each in found.values())


def test_side_effects_are_known_by_the_schemas_and_by_name_too(project):
    sim = SIM.replace('    side_effects=["refund"],\n', "")
    files = project.scenario(desk=EAGER_DESK, sim=sim)
    assert verdicts(files, "tool_lost")["tool=refund call=1: tool_lost"].title == "undetected (failed check)"
    named = verdicts(files, "tool_lost", settings=ExploreSettings(side_effects=("refund",)))
    assert named["tool=refund call=1: tool_lost"].title == "repeated effect"


def test_the_config_says_what_the_tools_of_a_scenario_do(project):
    files = project.scenario(desk=EAGER_DESK, sim=SIM.replace('    side_effects=["refund"],\n', ""))
    config = next(project.folder.rglob("offbook.toml"))
    config.write_text(config.read_text() + "\n[tools.refund]\neffect = true\n[tools.other]\nread_only = true\n")
    assert verdicts(files, "tool_lost")["tool=refund call=1: tool_lost"].verdict == "repeated effect"


def test_a_tool_without_a_mock_is_a_divergence(project):
    desk = DESK.replace("    said =", "    if 'error' in paid:\n        await ctx.resolve_tool('tell', {})\n    said =")
    each = verdicts(project.scenario(desk=desk), "tool_error")["tool=refund call=1: tool_error"]
    assert each.title == "undecided"
    assert "'tell'" in each.assessment.evidence[0]


def test_what_was_never_recorded_can_be_asked_live(project, monkeypatch):
    files = project.scenario(config=CONFIG + 'provider = "openai"\n')
    with LoopbackServer(chat_answer("asked for real")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        found = verdicts(files, "tool_error", settings=ExploreSettings(on_divergence="live"))
    each = found["tool=refund call=1: tool_error"]
    assert each.run.result["turns"][0]["agent"] == "asked for real"


SIMULATED = SIM.replace('turns=["Order 42 never came"]', 'profile="Ada", goal="the money back"')
USER = '\n[user]\nprovider = "openai"\nmodel = "m"\n'


def test_a_simulated_user_is_answered_from_the_recording_and_no_fault_fires_there(project):
    opening = '{"message": "Order 42 never came", "stop": false}'
    ending = '{"reason": "I have it", "message": null, "stop": true, "goal_reached": true}'
    answers = {**SIM_ANSWERS, "refunds/desk/1/user": [{"content": opening}, {"content": ending}]}
    files = project.scenario(sim=SIMULATED, config=CONFIG + USER, answers=answers)
    assert clean(files).result["ending"] == "goal_reached"
    found = verdicts(files, "connection_reset,empty_response")
    assert not any("user" in name for name in found)
    assert found["step=agent.plan call=1 attempt=1: connection_reset"].title == "recovered"
    assert found["step=agent.say call=1 attempt=1: empty_response"].title == "undetected (broken data)"


def test_a_simulated_user_goes_on_as_recorded_and_gets_no_answer_of_the_agent(project):
    opening = '{"message": "Order 42 never came", "stop": false}'
    ending = '{"reason": "I have it", "message": null, "stop": true, "goal_reached": true}'
    answers = {**SIM_ANSWERS, "refunds/desk/1/user": [{"content": opening}, {"content": ending}]}
    files = project.scenario(sim=SIMULATED, config=CONFIG + USER, answers=answers)
    for settings in (ExploreSettings(), ExploreSettings(on_divergence="default", default_response="no idea")):
        found = verdicts(files, "tool_error,tool_lost,tool_garbled", settings=settings)
        assert "undecided" not in {each.title for each in found.values()}
        runs = [each.run for each in found.values() if each.run.diverged]
        assert runs
        assert all(run.result["ending"] == "goal_reached" for run in runs)


def test_a_simulated_user_who_does_not_play_along_ends_the_run(project):
    answers = {**SIM_ANSWERS, "refunds/desk/1/user": [{"content": "nonsense"}, {"content": "nonsense"}]}
    files = project.scenario(sim=SIMULATED, config=CONFIG + USER, answers=answers)
    with pytest.raises(InputError, match="the run fails without any fault: TargetError"):
        verdicts(files)


def test_an_agent_that_is_an_endpoint_is_refused(project):
    files = project.scenario(config='[agent]\nname = "desk"\nendpoint = "http://127.0.0.1:1"\n')
    with pytest.raises(InputError, match=r"agent desk: its models are called elsewhere(.|\n)*-- COMMAND"):
        clean(files)


def test_the_mocked_tools_of_an_agent_that_asks_no_model_can_fail(project):
    desk = "async def handle(messages, ctx):\n    return str(await ctx.resolve_tool('refund', {'order': '42'}))\n"
    found = verdicts(project.scenario(desk=desk), "tool_lost,timeout")
    assert set(found) == {"tool=refund call=1: tool_lost", "tool=refund: tool_lost"}
    assert all(each.is_finding for each in found.values())


def test_an_agent_that_calls_nothing_by_what_it_is_given_is_refused(project):
    desk = "async def handle(messages, ctx):\n    return 'Paid.'\n"
    with pytest.raises(InputError, match=r"agent desk: the agent makes no model calls(.|\n)*-- COMMAND"):
        clean(project.scenario(desk=desk))


def test_a_recording_that_is_not_there_is_reported_with_how_to_make_it(project):
    sim, recording = project.scenario()
    recording.unlink()
    with pytest.raises(InputError, match=r"there is no such recording(.|\n)*offbook test FILE --record"):
        clean((sim, recording))


def test_a_recording_of_another_conversation_is_refused(project):
    files = project.scenario(answers={"refunds/other/1/agent": {"content": "yes"}})
    with pytest.raises(InputError, match="it has no entry of the conversation 'refunds/desk/1'"):
        clean(files)


def test_a_scenario_that_is_not_there_is_reported_with_the_nearest(project):
    sim, recording = project.scenario()
    wrong = ScenarioSpec(recording=str(recording), file=str(sim), scenario="refnds", agent="desk")
    with pytest.raises(InputError, match="did you mean 'refunds'"), open_subject(wrong, ExploreSettings()):
        pass


FLOW = """\
name: support
config: {provider: openai, model: m}
state: {user_input: ""}
steps:
  - {id: plan, type: llm_call, prompt: "Answer: {state.user_input}", output: response}
"""


def test_a_workflow_that_gives_up_as_an_agent_has_failed_cleanly(project):
    project.write("flow.yaml", FLOW)
    sim = SIM.replace('    assertions=Trajectory("strict", ["refund"]),\n', "")
    config = '[agent]\nname = "desk"\nworkflow = "flow.yaml"\n'
    files = project.scenario(config=config, sim=sim)
    each = verdicts(files, "http_error 500")["step=agent.plan call=1: http_error 500"]
    assert each.title == "failed cleanly"
    assert each.run.error.type == "StepError"
