"""LiteLLM: a completion that is given its own answer."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from bench.contestants.contestant import Replayer
from bench.workload import MAX_TOKENS, MODEL, TEMPERATURE, Call


class LiteLLMReplayer(Replayer):
    """`acompletion(mock_response=…)`: nothing is looked up, the caller brings the answer."""

    name = "LiteLLM acompletion(mock_response)"
    repeats = 5
    calls_a_repeat = 60

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def open(self) -> None:
        """Nothing to open."""

    async def answer(self, prepared: Call) -> str:
        response = await self._module.acompletion(
            MODEL, prepared.messages, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, mock_response=prepared.answer
        )
        return str(response.choices[0].message.content)

    async def replay(self, prepared: Sequence[Call]) -> None:
        acompletion = self._module.acompletion
        for call in prepared:
            await acompletion(
                MODEL, call.messages, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, mock_response=call.answer
            )
