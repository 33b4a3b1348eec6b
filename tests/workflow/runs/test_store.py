"""Kept runs: what is kept, who may have them, and what holds when they are gone on with."""

import asyncio
import os
import stat
from datetime import timedelta

import orjson
import pytest

from offbook.errors import InputError, ProviderError, RunError
from offbook.faults import Timeout
from offbook.messages import Response, TextDelta, ToolCall, Usage
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, RecordedError, ToolExchange
from offbook.recording.stores.locate import open_store
from offbook.tools import Toolbox
from offbook.workflow import WorkflowEngine, load_workflow
from offbook.workflow.runs.calls import reusable_calls
from offbook.workflow.runs.store import RunStore
from tests.fakes import Scripted

CHAIN = """\
name: chain
config: {model: m}
state: {topic: cats}
steps:
  - {id: one, type: llm_call, prompt: "one {state.topic}", output: first}
  - {id: two, type: llm_call, depends_on: [one], prompt: "two {state.first}", output: second}
"""


class Crash(BaseException):
    """What no part of a run is prepared for."""


def response(content, **fields):
    return Response(content, "m", "scripted", Usage.of(1, 2), cost_usd=0.5, **fields)


def prompts_of(provider):
    """What a provider was asked, in order."""
    return [request.messages[-1]["content"] for request in provider.requests]


class Desk:
    """A workflow in a file, and the runs of it."""

    def __init__(self, folder, text):
        self.flow = folder / "flow.yaml"
        self.flow.write_text(text)
        self.store = RunStore(folder / "runs")

    def start(self, *, state=None, tools=()):
        return self.store.start(load_workflow(self.flow, tools=Toolbox(tools)), self.flow, state=state)

    async def work(self, stored_run, *outcomes, tools=()):
        """Run the workflow, or the rest of it, on a script; gives the result, or the crash, and the provider."""
        provider = Scripted(*outcomes)
        engine = WorkflowEngine(
            self.flow,
            stored_run.calls.wrap_provider(provider),
            tools=tools,
            wrap_tools=lambda found: {name: stored_run.calls.wrap(tool) for name, tool in found.items()},
            checkpoint=stored_run.checkpoint,
        )
        with stored_run:
            try:
                result = await engine.run(stored_run.manifest.state)
                stored_run.end(result.status)
            except BaseException as crash:
                return crash, provider
            finally:
                await stored_run.calls.close()
        return result, provider


@pytest.fixture
def desk(tmp_path):
    return lambda text=CHAIN: Desk(tmp_path, text)


async def test_what_is_done_when_a_run_crashes_is_not_done_again(desk):
    chain = desk()
    crash, _ = await chain.work(chain.start(state={"topic": "dogs"}), response("1"), Crash())
    assert isinstance(crash, BaseExceptionGroup)
    assert chain.store.summaries()[0].status == "interrupted"
    result, provider = await chain.work(chain.store.resume("last"), response("2"))
    assert prompts_of(provider) == ["two 1"]
    assert result.state == {"topic": "dogs", "first": "1", "second": "2"}
    (summary,) = chain.store.summaries()
    assert summary.status == "succeeded"
    assert summary.settled_steps == 2
    assert summary.cost_usd == 1.0


async def test_a_finished_step_never_answers_for_one_that_asks_the_same(desk):
    """Neither a later step with the same prompt, nor a later round, nor the same call of a tool."""
    flow = desk("""\
name: same
config: {model: m}
steps:
  - id: rounds
    type: loop
    until: index == 1
    steps:
      - {id: ask, type: llm_call, prompt: "roll", output: rolled}
      - {id: note, type: tool, depends_on: [ask], tool: note, args: {text: "same"}, output: noted}
  - {id: last, type: llm_call, depends_on: [rounds], prompt: "roll", output: last}
""")
    noted = []

    def note(text: str) -> int:
        noted.append(text)
        if len(noted) == 2:
            raise Crash
        return len(noted)

    await flow.work(flow.start(tools=[note]), response("first"), response("second"), tools=[note])
    assert len(noted) == 2
    result, provider = await flow.work(flow.store.resume("last"), response("third"), tools=[note])
    assert result.state == {"rolled": "second", "noted": 3, "last": "third"}
    assert prompts_of(provider) == ["roll"]
    assert [result.steps[place].output for place in ("rounds[0].ask", "rounds[1].ask", "rounds")] == [
        "first",
        "second",
        2,
    ]


async def test_finished_steps_that_hold_others_write_to_the_state_again(desk):
    flow = desk("""\
name: outer
config: {model: m}
steps:
  - id: sub
    type: subworkflow
    workflow:
      name: inner
      steps: [{id: ask, type: llm_call, prompt: "inner", output: inner}]
    outputs: {copied: inner}
  - {id: after, type: llm_call, depends_on: [sub], prompt: "after {state.copied}", output: after}
""")
    await flow.work(flow.start(), response("1"), Crash())
    result, provider = await flow.work(flow.store.resume("last"), response("2"))
    assert result.state == {"copied": "1", "after": "2"}
    assert prompts_of(provider) == ["after 1"]
    assert set(result.steps) == {"sub", "sub.ask", "after"}


async def test_a_stream_is_answered_again_as_it_was(desk):
    flow = desk(
        CHAIN.replace("id: one,", "id: one, stream: true,").replace('prompt: "two', 'stream: true, prompt: "two')
    )
    await flow.work(flow.start(), [TextDelta("a"), response("a")], [TextDelta("b"), Crash()])
    result, provider = await flow.work(flow.store.resume("last"), [TextDelta("c"), response("c")])
    assert result.state["second"] == "c"
    assert prompts_of(provider) == ["two a"]


async def test_skipped_steps_run_once_what_made_them_be_skipped_is_repaired(desk):
    chain = desk()
    failed, _ = await chain.work(chain.start(), ProviderError("no", status_code=400))
    assert {name: step.status for name, step in failed.steps.items()} == {"one": "failed", "two": "skipped"}
    result, _ = await chain.work(chain.store.resume("last"), response("1"), response("2"))
    assert {name: step.status for name, step in result.steps.items()} == {"one": "done", "two": "done"}


AGENT = """\
name: agent
config: {model: m}
steps:
  - {id: sell, type: agent, prompt: "sell", tools: [charge], terminal_tool: done, max_tool_errors: 0, output: sold}
"""


class Till:
    """Tools of which each call does what comes next: gives a text, or raises."""

    def __init__(self, *, charge, done):
        self._outcomes = {"charge": list(charge), "done": list(done)}
        self.tools = [self.charge, self.done]

    def charge(self) -> str:
        return self._next("charge")

    def done(self) -> str:
        return self._next("done")

    def _next(self, tool):
        outcome = self._outcomes[tool].pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def call(tool):
    return response("", tool_calls=(ToolCall(tool, {}, tool),))


async def test_what_failed_and_then_worked_is_remembered_as_it_worked(desk):
    """An agent whose tool failed, was repaired, and that was then cut off, goes on from the repaired call."""
    flow, till = desk(AGENT), Till(charge=[OSError("no line"), "charged 1", "charged 2"], done=["sold"])
    failed, _ = await flow.work(flow.start(tools=till.tools), call("charge"), tools=till.tools)
    assert failed.steps["sell"].error_type == "ToolExecutionError"
    await flow.work(flow.store.resume("last"), call("charge"), Crash(), tools=till.tools)
    result, provider = await flow.work(flow.store.resume("last"), call("done"), tools=till.tools)
    assert result.state["sold"] == "sold"
    assert prompts_of(provider) == ["charged 2"]


async def test_a_step_that_failed_and_was_then_cut_off_keeps_its_last_answer(desk):
    flow, till = desk(AGENT), Till(charge=[OSError("no line"), "charged"], done=[Crash(), "sold"])
    await flow.work(flow.start(tools=till.tools), call("charge"), tools=till.tools)
    await flow.work(flow.store.resume("last"), call("done"), tools=till.tools)
    result, provider = await flow.work(flow.store.resume("last"), tools=till.tools)
    assert result.state["sold"] == "sold"
    assert prompts_of(provider) == []


async def test_calls_outside_of_steps_are_kept_too(desk):
    stored_run = desk().start()
    provider = stored_run.calls.wrap_provider(Scripted(response("1")))
    with stored_run:
        async with provider:
            await provider.complete([{"role": "user", "content": "Hi"}], "m")
    assert stored_run.has_started


def exchange(at, **fields):
    return Exchange(recorded_at=at, request_hash="h", **fields)


def tool_call(at, error=None):
    return ToolExchange(arguments={}, result=at, recorded_at=at, error=error and RecordedError(error))


def reusable_of(answers, calls=(), *, has_failed=False):
    """The moments of what is worth keeping, of models and of tools."""
    found = Document()
    for answer in answers:
        found.add("step", answer)
    for call in calls:
        found.add_tool("tool", call)
    stored_run = reusable_calls(found, has_failed=has_failed)
    return [each.recorded_at for each in stored_run.exchanges("step")], [
        each.recorded_at for each in stored_run.tools.get("tool", [])
    ]


def test_calls_of_models_that_failed_are_made_again():
    assert reusable_of([exchange("1", fault=Timeout(after_ms=1)), exchange("2")]) == (["2"], [])


def test_errors_of_tools_hold_only_if_the_model_was_told_of_them():
    calls = [tool_call("2", "OSError"), tool_call("3"), tool_call("5", "OSError")]
    assert reusable_of([exchange("1"), exchange("4")], calls) == (["1", "4"], ["2", "3"])


def test_the_answer_that_a_step_failed_with_is_asked_for_again():
    assert reusable_of([exchange("1"), exchange("2")], has_failed=True) == (["1"], [])
    assert reusable_of([exchange("1"), exchange("2")], has_failed=False) == (["1", "2"], [])


def test_an_answer_that_was_acted_on_holds_although_the_step_failed():
    assert reusable_of([exchange("1")], [tool_call("2")], has_failed=True) == (["1"], ["2"])
    assert reusable_of([exchange("1")], [tool_call("2", "OSError")], has_failed=True) == (["1"], [])
    assert reusable_of([], [tool_call("2", "OSError")], has_failed=True) == ([], [])


def test_each_kept_call_answers_once():
    found = Document(entries={"step": exchange("1")})
    assert reusable_calls(found, has_failed=False).entries == {"step": [exchange("1")]}


def test_only_the_owner_may_look_into_a_run(desk, tmp_path):
    chain = desk()
    before = os.umask(0)
    try:
        asyncio.run(chain.work(chain.start(), response("1"), response("2")))
    finally:
        os.umask(before)
    (folder,) = (tmp_path / "runs").glob("2*")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert len(modes) == 6
    assert (tmp_path / "runs/.gitignore").read_text() == "*\n"


def test_the_calls_of_a_step_are_a_recording(desk, tmp_path):
    chain = desk()
    asyncio.run(chain.work(chain.start(), response("1"), response("2")))
    recordings = [open_store(path).load() for path in sorted(tmp_path.glob("runs/*/calls/*.json"))]
    assert [[exchange.content for _, exchange in recording] for recording in recordings] == [["1"], ["2"]]


def test_steps_whose_names_look_alike_are_kept_apart(desk, tmp_path):
    long = "x" * 100
    names = ["a b", "a+b", f"{long}1", f"{long}2"]
    steps = ", ".join(f'{{id: "{name}", type: llm_call, prompt: hi}}' for name in names)
    flow = desk(f"name: alike\nconfig: {{model: m}}\nsteps: [{steps}]\n")
    asyncio.run(flow.work(flow.start(), *[response(name) for name in names]))
    assert len(list(tmp_path.glob("runs/*/calls/*.json"))) == len(names)


def test_ids_tell_the_time_and_no_two_are_the_same(desk):
    chain = desk()
    for _ in range(3):
        chain.start().close()
    ids = chain.store.ids()
    assert len(set(ids)) == 3
    assert ids == sorted(ids)
    assert all(len(each) == len("20261115-233012-001") for each in ids)


def test_a_run_can_be_named_by_a_part_of_its_id(desk):
    chain = desk()
    chain.start().close()
    (only,) = chain.store.ids()
    assert [chain.store.id_of(name) for name in (only, only[:10], only[-5:], "last")] == [only] * 4
    chain.start().close()
    assert chain.store.id_of("last") == chain.store.ids()[1]
    with pytest.raises(RunError, match="matches several runs"):
        chain.store.id_of("20")
    with pytest.raises(RunError, match="did you mean 'last'"):
        chain.store.id_of("lst")
    with pytest.raises(RunError, match="there is no run ''"):
        chain.store.id_of("")


def test_a_run_under_way_cannot_be_taken_up_or_removed(desk):
    chain = desk()
    with chain.start():
        with pytest.raises(RunError, match="another process is running this run"):
            chain.store.resume("last")
        assert chain.store.summaries()[0].status == "running"
        assert chain.store.prune(keep=0) == []
        assert not chain.store.discard(chain.store.id_of("last"))
    chain.store.resume("last").close()
    assert chain.store.prune(older_than=timedelta(days=1)) == []
    assert len(chain.store.prune(older_than=timedelta(0))) == 1
    assert chain.store.ids() == []


def test_a_refused_resume_leaves_the_run_as_it_was(desk):
    chain = desk()
    with chain.start() as stored_run:
        stored_run.end("failed")
    chain.flow.write_text(CHAIN + "# changed\n")
    with pytest.raises(RunError, match=r"flow\.yaml"):
        chain.store.resume("last")
    assert chain.store.summaries()[0].status == "failed"
    chain.store.resume("last", force=True).close()
    assert chain.store.summaries()[0].status == "interrupted"


def test_another_version_of_offbook_counts_as_a_change(desk, tmp_path):
    chain = desk()
    chain.start().close()
    (manifest,) = tmp_path.glob("runs/*/run.json")
    manifest.write_bytes(orjson.dumps(orjson.loads(manifest.read_bytes()) | {"version": "0.0.0"}))
    with pytest.raises(RunError, match=r"offbook, which was 0\.0\.0"):
        chain.store.resume("last")


def test_included_files_count_as_the_workflow_wherever_they_are_named(desk, tmp_path):
    (tmp_path / "parts").mkdir()
    step = "{id: ask, type: llm_call, prompt: hi}"
    (tmp_path / "parts/leaf.yaml").write_text(f"name: leaf\nsteps: [{step}]\n")
    (tmp_path / "parts/part.yaml").write_text(
        "name: part\n"
        "steps: [{id: l, type: loop, until: 'true', steps: [{id: s, type: subworkflow, path: leaf.yaml}]}]\n"
    )
    chain = desk(
        "name: top\nsteps:\n"
        "  - {id: a, type: subworkflow, path: parts/part.yaml}\n"
        f"  - {{id: b, type: subworkflow, workflow: {{name: inline, steps: [{step}]}}}}\n"
    )
    with chain.start() as stored_run:
        files = [os.path.relpath(file, tmp_path) for file in stored_run.manifest.files]
    assert files == ["flow.yaml", "parts/part.yaml", "parts/leaf.yaml"]
    (tmp_path / "parts/leaf.yaml").unlink()
    with pytest.raises(RunError, match=r"leaf\.yaml"):
        chain.store.resume("last")


def test_a_line_that_cannot_be_read_is_reported_by_its_number(desk, tmp_path):
    chain = desk()
    asyncio.run(chain.work(chain.start(), response("1"), Crash()))
    (log,) = tmp_path.glob("runs/*/steps.jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"step": "two", "resu')
    chain.store.resume("last").close()
    assert log.read_bytes().startswith(whole + b'{"began":')
    log.write_bytes(b"{}\n{torn}\n" + whole)
    with pytest.raises(RunError, match=r"steps\.jsonl: line 2"):
        chain.store.resume("last")
    assert chain.store.summaries()[0].status == "unreadable"


@pytest.mark.parametrize("data", [b"", b"{}", b'{"id": 5}', b"\xff"])
def test_a_start_that_cannot_be_read_is_reported(desk, tmp_path, data):
    chain = desk()
    chain.start().close()
    (manifest,) = tmp_path.glob("runs/*/run.json")
    manifest.write_bytes(data)
    with pytest.raises(RunError, match=r"run\.json"):
        chain.store.resume("last")
    manifest.unlink()
    manifest.mkdir()
    with pytest.raises(RunError, match=r"run\.json"):
        chain.store.resume("last")


def test_runs_cannot_be_kept_where_nothing_can_be_written(desk, tmp_path):
    chain = desk()
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(InputError, match="--runs-dir"):
        chain.start()


def test_a_log_that_cannot_be_written_ends_the_run(desk, tmp_path):
    stored_run = desk().start()
    (log,) = tmp_path.glob("runs/*/steps.jsonl")
    log.unlink()
    log.mkdir()
    with stored_run, pytest.raises(RunError, match=r"steps\.jsonl"):
        stored_run.end("succeeded")


def test_a_linked_run_is_none_of_ours_and_pruning_leaves_it(desk, tmp_path):
    chain = desk()
    for _ in range(3):
        with chain.start():
            pass
    [first, *_] = chain.store.ids()
    elsewhere = (tmp_path / "runs" / first).rename(tmp_path / "elsewhere")
    (tmp_path / "runs" / first).symlink_to(elsewhere)
    assert len(chain.store.ids()) == 2
    assert len(chain.store.prune(keep=0)) == 2
    assert (elsewhere / "run.json").exists()


def test_a_run_with_a_link_in_its_folder_is_not_gone_on_with(desk, tmp_path):
    chain = desk()
    with chain.start():
        pass
    [run_id] = chain.store.ids()
    (tmp_path / "runs" / run_id / "calls" / "extra").symlink_to("/etc/hostname")
    with pytest.raises(RunError, match="extra is a link"):
        chain.store.resume(run_id)
