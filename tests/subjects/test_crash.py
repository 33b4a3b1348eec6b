"""Runs that are killed at a call and started again: where, with what, and what is known of both lives."""

import json

import pytest

from offbook import explore_function
from offbook.errors import InputError
from offbook.explore.cases import cases_of
from offbook.explore.explorer import Explorer
from offbook.explore.judge import assess
from offbook.explore.options import CRASH_VARIANTS, ExploreOptions, select_variants
from offbook.explore.run import RunFailure, sites_of
from offbook.explore.settings import ExploreSettings
from offbook.faults import At, Crash, FaultInjector, FaultPlan, inject_tools, parse_fault
from offbook.session.provider import MockProvider
from offbook.settings import arguments_of
from offbook.subjects.crash import join_lives, run_until_crash
from offbook.subjects.executors import executor_of
from offbook.subjects.specs import ProgramSpec, WorkflowSpec, open_subject
from offbook.wire.options import parse_fault_plan
from tests.explore.runs import clean_run, model_call, plan_of, tool_run, write_recording
from tests.subjects.program.test_tools import CREATES, files  # noqa: F401 - a fixture
from tests.subjects.program.test_tools import subject as mcp_subject
from tests.subjects.programs import python, subject
from tests.subjects.test_workflow import subject_of

ANSWERS = [{"content": "Pay."}, {"content": "Paid."}]
PAYS = """
from offbook import effect

lives = os.path.join(os.environ["TMPDIR"], "lives")
life = len(open(lives).read()) + 1 if os.path.exists(lives) else 1
open(lives, "a").write("x")
ask(said("Pay?"))
effect("pay", order=42)
print(ask(said("And now?"))["content"], file=sys.stderr if life > 9 else sys.stdout)
"""
POSTS = PAYS.replace(
    'effect("pay", order=42)',
    """urllib.request.urlopen(urllib.request.Request(
    os.environ["OFFBOOK_URL"] + "/_offbook/effects", b'{"tool": "pay", "arguments": {"order": 42}}'))""",
)


def crash(program, *lines):
    """Run a program until it crashes there, and again."""
    with program:
        clean = program.run(FaultPlan())
        return clean, program.run(plan_of(*lines))


def explored(program, faults="crash"):
    with program:
        options = ExploreOptions(variants=select_variants(faults, program.variants))
        exploration = Explorer(program, options, executor=executor_of(program, 1)).explore()
    return {str(each.case): each.title for each in exploration.results}


def test_a_program_is_killed_before_a_call_and_started_again(tmp_path):
    clean, run = crash(subject(PAYS, tmp_path, *ANSWERS, side_effects=("pay",)), "call=2: crash before")
    assert run.result == clean.result == {"exit": 0, "stdout": "Paid.\n"}
    assert [call.number for call in run.calls] == [1, 3, 4]
    assert [str(effect) for effect in run.effects] == ["pay(order=42)", "pay(order=42)"]
    verdict = assess(run, clean)
    assert verdict.title == "repeated effect"
    assert verdict.evidence == (
        "pay(order=42) ran 2 times instead of once",
        "it was killed before call 2, and started again; before that, pay(order=42) ran; after that, pay(order=42) ran",
    )


def test_a_program_keeps_its_temporary_folder_and_nothing_else(tmp_path):
    counts = 'print(life, file=open(os.environ["TMPDIR"] + "/seen", "w")); print(open(lives).read())'
    _, run = crash(subject(PAYS + counts, tmp_path, *ANSWERS), "call=1: crash before")
    assert run.result["stdout"] == "Paid.\nxx\n"


def test_a_program_is_killed_again_while_it_recovers(tmp_path):
    clean, run = crash(
        subject(PAYS, tmp_path, *ANSWERS, side_effects=("pay",)), "call=2: crash before", "call=4: crash before"
    )
    assert run.result == clean.result
    assert [call.number for call in run.calls] == [1, 3, 5, 6]
    assert [str(effect) for effect in run.effects] == ["pay(order=42)"] * 3
    assert (
        assess(run, clean).evidence[1].startswith("it was killed before call 2, and again before call 4, and started")
    )


def test_pairs_kill_a_program_again_and_next_to_another_fault(tmp_path):
    program = subject(PAYS, tmp_path, *ANSWERS, side_effects=("pay",), crashes=True)
    with program:
        variants = select_variants("wrong_content_type,crash", program.variants)
        options = ExploreOptions(variants=variants, pairs=True)
        exploration = Explorer(program, options, executor=executor_of(program, 1)).explore()
    pairs = {str(each.case): each for each in exploration.results if each.case.group == "pairs"}
    again = pairs["call=2: crash before; call=4: crash before"]
    assert (again.title, len(again.run.fired)) == ("repeated effect", 2)
    (beside,) = (each for name, each in pairs.items() if name.startswith("call=1 attempt=1: ") and "call=2" in name)
    assert len(beside.run.fired) == 2


@pytest.mark.parametrize("code", [PAYS, POSTS], ids=["effect()", "over HTTP"])
def test_a_program_is_killed_right_after_an_effect_that_it_reports(tmp_path, code):
    verdicts = explored(subject(code, tmp_path, *ANSWERS, side_effects=("pay",), crashes=True))
    assert verdicts == {
        "call=1: crash before": "recovered",
        "call=2: crash before": "repeated effect",
        "tool=pay call=1: crash after": "repeated effect",
    }


def test_an_effect_that_is_written_to_a_file_cannot_be_waited_for(tmp_path):
    writes = PAYS.replace(
        'effect("pay", order=42)', """open(os.environ["OFFBOOK_EFFECTS"], "a").write('{"tool": "pay"}\\n')"""
    )
    assert list(explored(subject(writes, tmp_path, *ANSWERS, crashes=True))) == [
        "call=1: crash before",
        "call=2: crash before",
    ]


def test_a_crash_fires_once_and_other_faults_as_often_as_they_can(tmp_path):
    program = subject("print(ask(said('Hi'))['content'])", tmp_path, {"content": "Hello!"})
    _, run = crash(program, "everywhere: crash before")
    assert run.result["stdout"] == "Hello!\n"
    assert run.fired == ("call=1 attempt=1: crash before",)


def test_a_program_that_is_killed_with_its_answer_has_asked_for_it(tmp_path):
    program = subject("print(ask(said('Hi'))['content'])", tmp_path, {"content": "Hello!"})
    clean, run = crash(program, "call=1: crash after")
    assert [call.outcome for call in run.calls] == ["answered", "answered"]
    assert assess(run, clean).evidence[-1].startswith("it was killed after the answer to call 1, and started again")


def test_an_mcp_tool_crashes_before_and_after_its_effect(files):  # noqa: F811
    with mcp_subject(CREATES, files) as program:
        clean = program.run(FaultPlan())
        before, after = (program.run(plan_of(f"tool=desk.create call=1: crash {when}")) for when in ("before", "after"))
    assert [len(run.effects) for run in (clean, before, after)] == [1, 1, 2]
    assert [assess(run, clean).title for run in (before, after)] == ["recovered", "repeated effect"]
    sites = [site for site in sites_of(clean) if site.is_tool]
    assert [str(case) for case in cases_of(sites, CRASH_VARIANTS)] == [
        "tool=desk.create call=1: crash before",
        "tool=desk.create call=1: crash after",
    ]


def test_a_second_life_that_fails_or_hangs_is_what_became_of_the_run(tmp_path):
    fails = PAYS.replace('ask(said("Pay?"))', "assert life == 1, 'left behind'\nask(said('Pay?'))")
    clean, run = crash(subject(fails, tmp_path, *ANSWERS, side_effects=("pay",)), "call=2: crash before")
    assert assess(run, clean).title == "crashed"
    hangs = "import time\n" + PAYS.replace('ask(said("Pay?"))', "time.sleep(60 * (life - 1))\nask(said('Pay?'))")
    clean, run = crash(subject(hangs, tmp_path, *ANSWERS, deadline_s=1.5), "call=1: crash before")
    assert assess(run, clean).title == "hung"
    assert assess(run, clean).evidence[0].startswith("it had made no call after")


def test_a_workflow_is_resumed_and_repeats_only_what_nobody_could_note(project):
    workflow = subject_of(project.workflow())
    assert explored_workflow(workflow) == {
        "step=plan call=1: crash before": "recovered",
        "step=tell call=1: crash before": "recovered",
        "tool=refund call=1: crash before": "recovered",
        "tool=refund call=1: crash after": "repeated effect",
    }


def explored_workflow(workflow, workers=2):
    options = ExploreOptions(variants=select_variants("crash", workflow.variants))
    exploration = Explorer(workflow, options, executor=executor_of(workflow, workers)).explore()
    return {str(each.case): each.title for each in exploration.results}


def test_a_workflow_that_is_resumed_asks_for_nothing_again(project):
    workflow = subject_of(project.workflow())
    clean = workflow.run(FaultPlan())
    run = workflow.run(plan_of("step=tell call=1: crash before"))
    assert run.result == clean.result
    assert [(call.number, call.step_id) for call in run.calls] == [(1, "plan"), (2, "tell")]
    assert len(run.effects) == 1
    assert run.first_life.describe(run.effects) == (
        'it was killed before call 1 of tell, and started again; before that, refund(order="42") ran'
    )


def test_an_idempotent_tool_of_a_workflow_may_be_resumed(project):
    workflow = subject_of(project.workflow(), settings=ExploreSettings(idempotent=("refund",)))
    assert set(explored_workflow(workflow).values()) == {"recovered"}


def test_the_lives_of_a_run_are_numbered_through():
    fired = ("call=2 attempt=1: crash before",)
    first = clean_run(
        calls=(model_call(1), model_call(2)), tools=(tool_run(), tool_run("look")), fired=fired, took_s=1.0
    )
    second = clean_run(tools=(tool_run(),), took_s=0.5, error=RunFailure("declared", "GaveUp", "no"))
    both = join_lives(first, second)
    assert [call.number for call in both.calls] == [1, 2, 3]
    assert [(each.tool, each.call) for each in both.tools] == [("refund", 1), ("look", 1), ("refund", 2)]
    assert both.took_s == 1.5
    assert both.error == second.error
    assert both.fired == first.fired


def test_nothing_goes_on_after_a_crash(tmp_path):
    def work(life):
        try:
            life.crash(clean_run())
        finally:
            (tmp_path / "went on").touch()

    assert run_until_crash(work) == (clean_run(), True)
    assert run_until_crash(lambda _: clean_run()) == (clean_run(), False)
    assert not (tmp_path / "went on").exists()
    run, has_crashed = run_until_crash(lambda _: json.loads("{"))
    assert not has_crashed
    assert run.error.message == "the process ended with exit status 1"


def test_a_crash_is_a_line_of_a_plan():
    line = parse_fault("tool=refund call=1: crash after")
    assert line == At(tool="refund", call=1).fail(Crash("after"))
    assert str(line) == "tool=refund call=1: crash after"
    assert str(parse_fault("step=tell call=2: crash before")) == "step=tell call=2: crash before"
    for text in (
        "call=1: crash",
        "call=1: crash during",
        "call=1 chunk=2: crash before",
        "tool=a attempt=1: crash after",
    ):
        with pytest.raises(InputError):
            parse_fault(text)


async def test_only_explore_can_let_a_run_crash():
    plan = plan_of("call=1: crash before", "tool=pay: crash after")
    injector = FaultInjector(MockProvider(responses={}), plan)
    with pytest.raises(InputError, match="only explore"):
        await injector.complete([{"role": "user", "content": "Hi"}], "m")

    def pay() -> str:
        """Pay."""
        return "paid"

    with pytest.raises(InputError, match="only explore"):
        inject_tools([pay], plan)["pay"].callable()
    with pytest.raises(InputError, match="only explore"):
        parse_fault_plan(["call=1: crash before"])


def test_a_function_and_a_scenario_cannot_be_started_again(tmp_path, project):
    path = write_recording(tmp_path / "run.json", {"any": {"content": "Hi"}})
    with pytest.raises(InputError, match="only what can be started again can crash"):
        explore_function(lambda _: None, path, faults="crash")
    flow, recording = project.workflow()
    spec, settings = WorkflowSpec(recording=str(recording), file=str(flow)), ExploreSettings(keep=("state",))
    with pytest.raises(InputError, match="it is for a program"), open_subject(spec, settings):
        pass


def test_crashes_are_left_out_unless_they_are_asked_for(tmp_path):
    with subject(PAYS, tmp_path, *ANSWERS) as program:
        assert not [each for each in select_variants("all", program.variants) if each in CRASH_VARIANTS]
        assert select_variants("crash", program.variants) == list(CRASH_VARIANTS)


def test_the_settings_of_a_crash_are_arguments():
    settings = ExploreSettings(crashes=True, keep=("state", "queue"), runs_tools=True)
    assert arguments_of(settings) == ["--run-tools", "--crash", "--keep", "state", "--keep", "queue"]
    assert ProgramSpec(recording="run.json", command=python("")).arguments == ["--replay", "run.json"]
