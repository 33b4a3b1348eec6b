"""A test that asks the real models and tools, and is recorded."""

from __future__ import annotations

from collections.abc import Callable

from offbook.clock import run
from offbook.providers.provider import Provider
from offbook.pytest_plugin.answers import Answers
from offbook.pytest_plugin.late_provider import LateProvider
from offbook.pytest_plugin.plan import RecordingPlan
from offbook.pytest_plugin.staged_recording import StagedRecording
from offbook.pytest_plugin.tally import Tally
from offbook.pytest_plugin.wires import Wires
from offbook.recording.record_mode import RecordMode
from offbook.recording.recorder import RecordingProvider
from offbook.recording.tool_recorder import RecordedTools, record_tools


class RecordedAnswers(Answers):
    """The provider that `live` makes, and the real tools, recorded into a file that is kept if the test passes.

    Raises:
        InputError: there is something at the recording's place that is none.
    """

    is_live = True

    def __init__(self, plan: RecordingPlan, record: RecordMode, live: Callable[[], Provider]) -> None:
        super().__init__(plan)
        self._live = LateProvider(live, name=plan.provider or "live")
        self._staged = StagedRecording(plan.location, record, since=plan.since)
        self._mode: RecordMode = "new" if record == "new" else "append"
        self._provider: RecordingProvider | None = None
        self._toolbox: RecordedTools | None = None
        self._wires = Wires(record=self._staged.location, record_mode=self._mode, sink=self.log)

    @property
    def provider(self) -> RecordingProvider:
        if self._provider is None:
            location = self._staged.location
            self._provider = RecordingProvider(self._live, location, record=self._mode, sink=self.log)
        return self._provider

    @property
    def toolbox(self) -> RecordedTools:
        if self._toolbox is None:
            self._toolbox = record_tools((), self._staged.location, record=self._mode)
        return self._toolbox

    @property
    def wires(self) -> Wires:
        return self._wires

    async def disconnect(self) -> None:
        await self._live.close()

    def close(self, *, passed: bool) -> Tally:
        try:
            self._close_recorders()
            added = self._staged.added()
            is_kept = passed or self.plan.keeps_failed
            if self._is_opened and is_kept:
                self._staged.keep(added)
        finally:
            self._staged.remove()
        recorded, dropped = (added.size, 0) if is_kept else (0, added.size)
        return Tally(self.plan.location, self.log.served, recorded, self.log.missed, dropped)

    @property
    def _is_opened(self) -> bool:
        return self._provider is not None or self._toolbox is not None or self._wires.is_opened

    def _close_recorders(self) -> None:
        if self._provider is not None:
            run(self._provider.close())
        if self._toolbox is not None:
            self._toolbox.close()
        self._wires.close()
