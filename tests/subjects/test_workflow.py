"""Workflows as subjects: run by the engine on a harness, with the retries and fallbacks of their config."""

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan, parse_fault
from offbook.subjects.specs import WorkflowSpec, open_subject
from offbook.subjects.workflow import WorkflowSubject
from offbook.workflow.file.load import load_workflow
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer
from tests.subjects.projects import CARELESS, COUNT, COUNT_ANSWERS, REFUND


def subject_of(files, **options):
    flow, recording = files
    return WorkflowSubject(load_workflow(flow), recording, folder=flow.parent, **options)


def verdicts(subject, faults="all", **options):
    explored = Explorer(subject, ExploreOptions(variants=select_variants(faults), **options)).explore()
    return {str(each.case): each for each in explored.results}


def test_a_clean_run_returns_what_its_last_steps_wrote(project):
    run = subject_of(project.workflow()).run(FaultPlan())
    assert run.result == {"state": {"order": "42", "told": "It is paid."}, "outputs": {}}
    assert [(call.step_id, call.attempt) for call in run.calls] == [("plan", 1), ("tell", 1)]
    assert run.trajectory == [("refund", {"order": "42"})]
    assert run.error is None


def test_the_state_that_is_given_goes_before_the_one_that_is_declared(project):
    files = project.workflow(answers={"ask": {"content": "7"}}, text=COUNT.replace("state: {}", "state: {who: Ada}"))
    assert subject_of(files, state={"who": "Eve"}).run(FaultPlan()).result["state"]["who"] == "Eve"


def test_the_retry_of_the_config_is_in_place_and_counted(project):
    subject = subject_of(project.workflow())
    subject.run(FaultPlan())
    run = subject.run(FaultPlan([parse_fault("step=tell attempt=1: http_error 500")]))
    assert run.result["state"]["told"] == "It is paid."
    assert run.paths == {"retry": 1}
    assert run.took_s > 0.9


FALLBACK = """\
name: shop
config: {provider: openai, model: m, retry: {max_retries: 0}}
state: {}
steps:
  - {id: draft, type: llm_call, prompt: "Praise a chair.", output: draft, on_failure: continue}
  - id: check
    type: router
    depends_on: [draft]
    conditions: [{expression: "state.draft == 'A fine chair.'", target: translate}]
    default: again
  - {id: translate, type: llm_call, prompt: "In French: {state.draft}", output: text}
  - {id: again, type: llm_call, model: n, prompt: "Praise a chair in French.", output: text}
"""


@pytest.mark.parametrize(("text", "verdict"), [("Une belle chaise.", "recovered"), ("Une chaise.", "different result")])
def test_a_bad_answer_that_the_workflow_has_replaced_is_no_part_of_its_result(project, text, verdict):
    good = {"draft": {"content": "A fine chair."}, "translate": {"content": "Une belle chaise."}}
    given = project.workflow(FALLBACK, {**good, "again": {"content": text, "when": "any"}})
    found = verdicts(subject_of(given), "http_error 500,empty_response,partial_response,refusal")
    replaced = [each for case, each in found.items() if "step=draft" in case]
    assert [each.run.result for each in replaced] == [{"state": {"text": text}, "outputs": {}}] * len(replaced)
    assert {each.title for each in replaced} == {verdict}


PATIENT = """\
name: shop
config: {provider: openai, model: m}
state: {said: ""}
steps:
  - id: tell
    type: loop
    until: "state.said != ''"
    max_iterations: 2
    steps:
      - {id: say, type: llm_call, prompt: "Where is it?", output: said}
"""


def test_a_loop_that_needs_another_round_has_recovered(project):
    found = verdicts(subject_of(project.workflow(PATIENT, {"say": {"content": "Here."}})), "empty_response")
    assert found["step=say call=1 attempt=1: empty_response"].title == "recovered"


def test_a_step_that_gives_up_has_failed_cleanly(project):
    found = verdicts(subject_of(project.workflow()), "http_error")
    each = found["step=plan call=1: http_error 500"]
    assert each.title == "failed cleanly"
    assert each.run.error.type == "AllProvidersFailedError"


def test_a_refund_that_is_tried_again_when_its_answer_is_lost_is_a_repeated_side_effect(project):
    found = verdicts(subject_of(project.workflow(CARELESS)), "tool_lost")
    assert {each.title for each in found.values()} == {"repeated effect"}
    assert found["tool=refund call=1: tool_lost"].evidence == ('refund(order="42") ran 2 times instead of once',)


def test_a_refund_that_is_not_tried_again_is_none(project):
    found = verdicts(subject_of(project.workflow()), "tool_lost")
    assert {each.title for each in found.values()} == {"failed partway"}


COUNTS_OR_RAISES = """\
class NoNumberError(Exception):
    pass


def count(text: str) -> int:
    if not text:
        raise NoNumberError
    return int(text)
"""


@pytest.mark.parametrize("name", ["ValueError", "Exception"])
def test_an_error_of_a_tool_itself_is_a_crash_unless_it_or_a_base_of_it_is_declared(project, name):
    files = project.workflow(COUNT, COUNT_ANSWERS)
    crashed = verdicts(subject_of(files), "empty_response")
    assert {(each.title, each.run.error.type) for each in crashed.values()} == {("crashed", "ValueError")}
    declared = verdicts(subject_of(files, settings=ExploreSettings(declared=("KeyError", name))), "empty_response")
    assert {(each.title, each.run.error.declared_as) for each in declared.values()} == {("failed cleanly", name)}


@pytest.mark.parametrize(("declared", "title"), [((), "failed cleanly"), (("KeyError",), "crashed")])
def test_an_error_of_a_class_that_the_tools_define_is_no_crash_as_long_as_nothing_is_declared(project, declared, title):
    files = project.workflow(COUNT, COUNT_ANSWERS)
    project.write("shop.py", COUNTS_OR_RAISES)
    found = verdicts(subject_of(files, settings=ExploreSettings(declared=declared, runs_tools=True)), "empty_response")
    assert {(each.title, each.run.error.type) for each in found.values()} == {(title, "NoNumberError")}


def test_an_error_inside_a_loop_is_reported_by_the_innermost_step(project):
    looped = """\
name: loop
config: {provider: openai, model: m}
state: {items: ["a"]}
tools: {count: "shop:count"}
steps:
  - id: each
    type: loop
    over: state.items
    as: item
    steps:
      - {id: ask, type: llm_call, prompt: "How many {item}?", output: number}
      - {id: read, type: tool, depends_on: [ask], tool: count, args: {text: "{state.number}"}, output: counted}
"""
    found = verdicts(subject_of(project.workflow(looped, {"ask": {"content": "7"}})), "empty_response")
    assert {(each.title, each.run.error.type) for each in found.values()} == {("crashed", "ValueError")}


def test_a_failure_that_is_passed_over_does_not_end_the_workflow(project):
    text = COUNT.replace("tool: count,", "tool: count, on_failure: continue,")
    found = verdicts(subject_of(project.workflow(text, COUNT_ANSWERS)), "empty_response")
    assert all(each.run.error is None for each in found.values())


def test_what_was_never_recorded_is_answered_by_a_continuation_unless_the_run_is_to_stop(project):
    text = REFUND.replace("Tell them: {state.paid}", "Tell them: {state.plan}")
    case, files = "step=plan call=1 attempt=1: empty_response", project.workflow(text)
    each = verdicts(subject_of(files), "empty_response")[case]
    stopped = verdicts(subject_of(files, settings=ExploreSettings(on_divergence="stop")), "empty_response")[case]
    assert "this request of step 'tell' is not in the recording" in each.run.diverged
    assert each.run.continuation != ""
    assert each.title != "undecided"
    assert stopped.run.continuation == ""
    assert stopped.title == "undecided"


def test_what_was_never_recorded_can_be_answered_with_a_default(project):
    text = REFUND.replace("Tell them: {state.paid}", "Tell them: {state.plan}")
    settings = ExploreSettings(on_divergence="default", default_response="whatever")
    found = verdicts(subject_of(project.workflow(text), settings=settings), "empty_response")
    each = found["step=plan call=1 attempt=1: empty_response"]
    assert each.run.result["state"]["told"] == "whatever"


def test_what_was_never_recorded_can_be_asked_live(project, monkeypatch):
    text = REFUND.replace("Tell them: {state.paid}", "Tell them: {state.plan}")
    with LoopbackServer(chat_answer("asked for real")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        found = verdicts(
            subject_of(project.workflow(text), settings=ExploreSettings(on_divergence="live")), "empty_response"
        )
    each = found["step=plan call=1 attempt=1: empty_response"]
    assert each.run.result["state"]["told"] == "asked for real"


def test_tools_of_a_workflow_are_marked_by_name(project):
    files = project.workflow(CARELESS)
    project.write("shop.py", "def refund(order: str) -> str:\n    return 'never run'\n")
    undeclared = verdicts(subject_of(files), "tool_lost")["tool=refund call=1: tool_lost"]
    assert undeclared.title == "possible repeated effect"
    often, advice = undeclared.evidence
    assert often == 'refund(order="42") ran 2 times instead of once'
    assert "if it only reads: read_only=True or -o read_only=refund; if not: side_effect=True or -o side" in advice
    reading = verdicts(subject_of(files, settings=ExploreSettings(read_only=("refund",))), "tool_lost")
    assert reading["tool=refund call=1: tool_lost"].title == "recovered"
    marked = verdicts(subject_of(files, settings=ExploreSettings(side_effects=("refund",))), "tool_lost")
    assert {each.title for each in marked.values()} == {"repeated effect"}


NO_TOOLS = {"plan": {"content": "yes"}, "tell": {"content": "Done"}}


def test_a_tool_with_a_side_effect_is_not_run_for_real(project):
    with pytest.raises(InputError, match=r"tools\.refund: it has a side effect and would run for real"):
        subject_of(project.workflow(answers=NO_TOOLS))


def test_a_tool_that_declares_nothing_is_not_run_for_real_unless_it_is_said_to_only_read(project):
    files = project.workflow(answers=NO_TOOLS)
    project.write("shop.py", "def refund(order: str) -> str:\n    return 'paid'\n")
    with pytest.raises(InputError, match=r"tools\.refund: it may have a side effect and would run for real") as refused:
        subject_of(files)
    assert "-o read_only=refund, if it only reads; or allow it: --run-tools" in refused.value.hint
    run = subject_of(files, settings=ExploreSettings(read_only=("refund",))).run(FaultPlan())
    assert [each.result for each in run.tools] == ["paid"]


def test_a_tool_with_a_side_effect_is_run_for_real_if_that_is_wished(project):
    files = project.workflow(answers=NO_TOOLS)
    project.write("shop.py", "def refund(order: str) -> str:\n    return 'paid'\n")
    with pytest.raises(InputError, match="--run-tools"):
        subject_of(files, settings=ExploreSettings(side_effects=("refund",)))
    run = subject_of(files, settings=ExploreSettings(side_effects=("refund",), runs_tools=True)).run(FaultPlan())
    assert [each.result for each in run.tools] == ["paid"]


def test_a_run_that_takes_longer_than_its_deadline_has_hung(project):
    subject = subject_of(project.workflow(), settings=ExploreSettings(deadline_s=30.0))
    subject.run(FaultPlan())
    run = subject.run(FaultPlan([parse_fault("step=tell: timeout 20000")]))
    assert run.hung == "it had not ended after 30 s"


def test_a_described_workflow_is_opened_with_its_tools_beside_it(project):
    flow, recording = project.workflow()
    spec = WorkflowSpec(recording=str(recording), file=str(flow), state={"order": "42"})
    with open_subject(spec, ExploreSettings()) as subject:
        assert [each.result for each in subject.run(FaultPlan()).tools] == ["42 is paid"]


def test_the_error_of_a_step_is_the_same_in_every_run(project):
    files = project.workflow(COUNT, COUNT_ANSWERS)
    tool = "def count(text: str) -> str:\n    if not text:\n        raise ValueError(object())\n    return text\n"
    project.write("shop.py", tool)
    subject = subject_of(files, settings=ExploreSettings(read_only=("count",)))
    subject.run(FaultPlan())
    run = subject.run(FaultPlan([parse_fault("step=ask: empty_response")]))
    assert run.error.type == "ValueError"
    assert run.error.message == "<object object at 0x…>"
