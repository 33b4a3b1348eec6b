"""forge: its WorkflowRunner, which ours is named after."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from bench.contestants.agent_loop import ASKED, PROMPT, RESULT, AgentLoop, submit
from bench.peers import import_peer


class Page(BaseModel):
    """What `fetch` takes."""

    page: int


class Text(BaseModel):
    """What `submit` takes."""

    text: str


class _Scripted:
    """What forge needs of a client; answers with the next calls at once."""

    api_format = "openai"
    model = "scripted"

    def __init__(self, answers: list[Any]) -> None:
        self._answers = iter(answers)

    async def send(self, messages: list[Any], tools: list[Any] | None = None, **_: Any) -> Any:
        return next(self._answers)


class ForgeLoop(AgentLoop):
    """`forge.WorkflowRunner`, made anew for each run, without compaction. Of arguments it checks the shape alone."""

    name = "forge WorkflowRunner"

    def __init__(self) -> None:
        super().__init__()
        self._forge = forge = import_peer("forge")
        fetch = forge.ToolSpec(name="fetch", description="Fetch a page of the book.", parameters=Page)
        end = forge.ToolSpec(name="submit", description="Hand in the result.", parameters=Text)
        self._workflow = forge.Workflow(
            name="reader",
            description="Reads a book",
            tools={
                "fetch": forge.ToolDef(fetch, self.shelf.fetch),
                "submit": forge.ToolDef(end, submit, prerequisites=["fetch"]),
            },
            required_steps=["fetch"],
            terminal_tool="submit",
            system_prompt_template=PROMPT,
        )

    async def script(self, steps: int) -> list[Any]:
        call = self._forge.ToolCall
        return [[call("fetch", {"page": page})] for page in range(1, steps)] + [[call("submit", {"text": RESULT})]]

    async def run(self, script: list[Any]) -> str:
        context = self._forge.ContextManager(strategy=self._forge.NoCompact(), budget_tokens=10**12)
        runner = self._forge.WorkflowRunner(_Scripted(script), context, max_iterations=100)
        return str(await runner.run(self._workflow, ASKED))
