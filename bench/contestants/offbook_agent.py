"""Offbook's agent loop: on a script, and on a strict replay of a recorded run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from bench.contestants.agent_loop import ASKED, PROMPT, RESULT, AgentLoop, Shelf, submit
from bench.workload import COST_USD, MODEL, USAGE
from offbook import MockProvider, Provider, RecordingProvider, Request, Response
from offbook.agent import (
    ContextManager,
    GuardPolicy,
    LLMClient,
    NoCompact,
    ProviderClient,
    StreamChunk,
    ToolCall,
    ToolDef,
    ToolSpec,
    Workflow,
    WorkflowRunner,
    tool_of,
)
from offbook.messages import JsonObject, Reply, WholeReply

STEP_ID = "reader"
NO_LIMIT = 10**12
POLICY = GuardPolicy(budget_usd=1e9, budget_tokens=NO_LIMIT)
"""Every guard has something to do, and none ever stops the run."""


class Pages(BaseModel):
    """What `fetch` takes, as a model."""

    page: int


class Scripted:
    """A client that answers with the next calls at once."""

    def __init__(self, answers: Iterable[list[ToolCall]]) -> None:
        self._answers = iter(answers)

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> list[ToolCall]:
        return next(self._answers)

    def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        raise NotImplementedError


def calls_of(steps: int) -> Iterator[ToolCall]:
    """What the model answers in a run of so many steps."""
    yield from (ToolCall("fetch", {"page": page}) for page in range(1, steps))
    yield ToolCall("submit", {"text": RESULT})


def workflow_of(fetch: ToolDef) -> Workflow:
    """The agent, with a required step and a prerequisite, so that the guards have something to look at."""
    return Workflow(
        "reader",
        tools=[fetch, tool_of(submit, prerequisites=["fetch"])],
        required_steps=["fetch"],
        terminal_tool="submit",
        system_prompt_template=PROMPT,
    )


async def run_anew(client: LLMClient, workflow: Workflow) -> str:
    """One run by a new runner, with all guards on and no compaction."""
    context = ContextManager(NoCompact(), budget_tokens=NO_LIMIT)
    runner = WorkflowRunner(client, context, max_iterations=100, policy=POLICY)
    return str(await runner.run(workflow, ASKED))


class OffbookLoop(AgentLoop):
    """The runner on a client that answers at once; the tool is a plain function."""

    name = "offbook"

    def __init__(self) -> None:
        super().__init__()
        self._workflow = workflow_of(self._fetch(self.shelf))

    async def script(self, steps: int) -> list[list[ToolCall]]:
        return [[call] for call in calls_of(steps)]

    async def run(self, script: list[list[ToolCall]]) -> str:
        return await run_anew(Scripted(script), self._workflow)

    def _fetch(self, shelf: Shelf) -> ToolDef:
        return tool_of(shelf.fetch)


class ModelToolLoop(OffbookLoop):
    """The same, with a tool that says by a pydantic model what it takes."""

    name = "offbook, tool with a pydantic model"

    def _fetch(self, shelf: Shelf) -> ToolDef:
        return ToolDef(ToolSpec("fetch", "Fetch a page of the book.", Pages), shelf.fetch)


class SchemaToolLoop(OffbookLoop):
    """The same, with a tool that says by a JSON schema what it takes."""

    name = "offbook, tool with a JSON schema"

    def _fetch(self, shelf: Shelf) -> ToolDef:
        return ToolDef(ToolSpec("fetch", "Fetch a page of the book.", Pages.model_json_schema()), shelf.fetch)


class _Answering(Provider):
    """Answers with the next call at once."""

    name = "openai"

    def __init__(self, calls: Iterable[ToolCall]) -> None:
        self._calls = iter(calls)

    async def send(self, request: Request) -> Reply:
        call = next(self._calls)
        return WholeReply(Response(tool_calls=(call,), model=MODEL, provider="openai", usage=USAGE, cost_usd=COST_USD))


class ReplayLoop(AgentLoop):
    """The runner on a strict replay of a run that was recorded into `folder`; every call is checked for drift."""

    name = "offbook, on strict replay"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._workflow = folder, workflow_of(tool_of(self.shelf.fetch))

    async def script(self, steps: int) -> MockProvider:
        path = self._folder / f"reader-{steps}.json"
        if not path.exists():
            await self._record(path, steps)
        return MockProvider(path, strict=True)

    async def run(self, script: MockProvider) -> str:
        return await self._run_on(script)

    async def _record(self, path: Path, steps: int) -> None:
        fetched = self.shelf.fetched
        async with RecordingProvider(_Answering(calls_of(steps)), path) as recorder:
            await self._run_on(recorder)
        self.shelf.fetched = fetched

    async def _run_on(self, provider: Provider) -> str:
        return await run_anew(ProviderClient(provider, MODEL, step_id=STEP_ID), self._workflow)
