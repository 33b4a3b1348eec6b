"""pydantic-ai: a FunctionModel whose function looks its answer up."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from bench.contestants.contestant import Replayer
from bench.workload import MAX_TOKENS, TEMPERATURE, USAGE, Call


class FunctionModelReplayer(Replayer):
    """`FunctionModel.request`, without an agent around it; the answer is found by the last text asked.

    `models`, `functions`, `messages` and `usage` are the peer's modules of these names.
    """

    name = "pydantic-ai FunctionModel.request"

    def __init__(self, modules: dict[str, ModuleType], calls: list[Call]) -> None:
        self._modules, self._calls = modules, calls

    def open(self) -> None:
        messages, usage = self._modules["messages"], self._modules["usage"]
        answers = {call.messages[-1]["content"]: call.answer for call in self._calls}

        async def look_up(history: list[Any], _: Any) -> Any:
            return messages.ModelResponse(
                parts=[messages.TextPart(answers[history[-1].parts[-1].content])],
                usage=usage.RequestUsage(input_tokens=USAGE.prompt_tokens, output_tokens=USAGE.completion_tokens),
            )

        self._model = self._modules["function"].FunctionModel(look_up)
        self._settings = {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}
        self._parameters = self._modules["models"].ModelRequestParameters()

    def prepare(self, call: Call) -> list[Any]:
        messages = self._modules["messages"]
        system, question, answered, further = (message["content"] for message in call.messages)
        return [
            messages.ModelRequest(parts=[messages.SystemPromptPart(system), messages.UserPromptPart(question)]),
            messages.ModelResponse(parts=[messages.TextPart(answered)]),
            messages.ModelRequest(parts=[messages.UserPromptPart(further)]),
        ]

    async def answer(self, prepared: list[Any]) -> str:
        response = await self._model.request(prepared, self._settings, self._parameters)
        return str(response.parts[0].content)

    async def replay(self, prepared: Sequence[list[Any]]) -> None:
        request = self._model.request
        for history in prepared:
            await request(history, self._settings, self._parameters)
