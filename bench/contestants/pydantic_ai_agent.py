"""pydantic-ai's agent loop, on a FunctionModel."""

from __future__ import annotations

from typing import Any

from bench.contestants.agent_loop import ASKED, PROMPT, RESULT, AgentLoop
from bench.peers import import_peer


class PydanticAILoop(AgentLoop):
    """`Agent.run` with one tool; text ends the run."""

    name = "pydantic-ai Agent"
    repeats = 20

    def __init__(self) -> None:
        super().__init__()
        self._messages = import_peer("pydantic_ai.messages")
        self._function_model = import_peer("pydantic_ai.models.function").FunctionModel
        self._agent = import_peer("pydantic_ai").Agent(system_prompt=PROMPT, tools=[self.shelf.fetch])

    async def script(self, steps: int) -> Any:
        messages = self._messages
        calls = [messages.ToolCallPart("fetch", {"page": page}, tool_call_id=f"{page}") for page in range(1, steps)]
        answers = iter([messages.ModelResponse(parts=[part]) for part in (*calls, messages.TextPart(RESULT))])

        async def answer(_: list[Any], __: Any) -> Any:
            return next(answers)

        return self._function_model(answer)

    async def run(self, script: Any) -> str:
        return str((await self._agent.run(ASKED, model=script)).output)
