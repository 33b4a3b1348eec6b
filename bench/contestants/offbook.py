"""Offbook itself: strict replay from either store, and recording into either."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.contestants.contestant import Recorder, Replayer
from bench.workload import MAX_TOKENS, MODEL, TEMPERATURE, Call, response_of
from offbook import MockProvider, Provider, RecordingProvider, Request
from offbook.messages import Reply, WholeReply


class OffbookReplayer(Replayer):
    """A strict MockProvider: every call is fingerprinted and checked for drift."""

    def __init__(self, name: str, location: str) -> None:
        self.name, self._location = name, location

    def open(self) -> None:
        self._provider = MockProvider(self._location, strict=True)

    async def answer(self, prepared: Call) -> str:
        response = await self._provider.complete(
            prepared.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=prepared.step_id
        )
        return response.content

    async def replay(self, prepared: Sequence[Call]) -> None:
        complete = self._provider.complete
        for call in prepared:
            await complete(call.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=call.step_id)

    async def close(self) -> None:
        await self._provider.close()


class _Instant(Provider):
    """Answers every request at once."""

    name = "openai"

    def __init__(self, call: Call) -> None:
        self._reply = WholeReply(response_of(call))

    async def send(self, request: Request) -> Reply:
        return self._reply


class OffbookRecorder(Recorder):
    """A RecordingProvider around a provider that answers at once. `location` names the recording in a folder."""

    def __init__(self, name: str, location: str) -> None:
        self.name, self._location = name, location

    def open(self, folder: Path, calls: Sequence[Call], *, existing: int = 0) -> None:
        self._provider = RecordingProvider(_Instant(calls[0]), self._location.format(folder=folder))

    async def record(self, calls: Sequence[Call]) -> None:
        complete = self._provider.complete
        for call in calls:
            await complete(call.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=call.step_id)

    async def close(self) -> None:
        await self._provider.close()
