"""AgentLoom: its MockProvider and its RecordingProvider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.contestants.contestant import Recorder, Replayer
from bench.workload import COST_USD, MAX_TOKENS, MODEL, TEMPERATURE, Call


class AgentLoomReplayer(Replayer):
    """MockProvider, from the file with the same answers."""

    def __init__(self, name: str, module: ModuleType, location: str) -> None:
        self.name, self._module, self._location = name, module, location

    def open(self) -> None:
        self._provider = self._module.MockProvider(responses_file=self._location)

    async def answer(self, prepared: Call) -> str:
        response = await self._provider.complete(
            prepared.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=prepared.step_id
        )
        return str(response.content)

    async def replay(self, prepared: Sequence[Call]) -> None:
        complete = self._provider.complete
        for call in prepared:
            await complete(call.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=call.step_id)


class _Instant:
    """What AgentLoom's recorder needs of a provider; answers at once."""

    name, api_key, base_url = "openai", "", ""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def complete(self, **_: Any) -> Any:
        return self._response

    async def close(self) -> None:
        return None


class AgentLoomRecorder(Recorder):
    """RecordingProvider, which writes the whole file anew at each call. `make_file` gives one of a given size."""

    name = "AgentLoom"
    repeats = 3
    sampled = True

    def __init__(self, module: ModuleType, base: ModuleType, make_file: Callable[[int], str]) -> None:
        self._module, self._base, self._make_file = module, base, make_file

    def open(self, folder: Path, calls: Sequence[Call], *, existing: int = 0) -> None:
        path = folder / "agentloom.json"
        if existing:
            path.write_bytes(Path(self._make_file(existing)).read_bytes())
        response = self._base.ProviderResponse(
            content=calls[0].answer, model=MODEL, provider="openai", cost_usd=COST_USD, finish_reason="stop"
        )
        self._provider = self._module.RecordingProvider(_Instant(response), path)

    async def record(self, calls: Sequence[Call]) -> None:
        complete = self._provider.complete
        for call in calls:
            await complete(call.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=call.step_id)

    async def close(self) -> None:
        await self._provider.close()
