"""A test that is answered from its recording."""

from __future__ import annotations

import shlex

from offbook.clock import run
from offbook.errors import InputError
from offbook.pytest_plugin.answers import Answers
from offbook.pytest_plugin.plan import RecordingPlan
from offbook.pytest_plugin.tally import Tally
from offbook.pytest_plugin.unused_entries import named
from offbook.pytest_plugin.wires import Wires
from offbook.recording.cursor import Unused
from offbook.recording.keys import tool_key
from offbook.recording.replay import MockProvider
from offbook.recording.stores.locate import open_store
from offbook.recording.tool_replay import ReplayedTools, replay_tools


class ReplayedAnswers(Answers):
    """The recording alone, strict unless the plan says otherwise.

    Raises:
        InputError: from `provider`, `toolbox` and `wires`: there is no recording, or none that can be read.
    """

    is_live = False

    def __init__(self, plan: RecordingPlan) -> None:
        super().__init__(plan)
        self._provider: MockProvider | None = None
        self._toolbox: ReplayedTools | None = None
        self._wires: Wires | None = None

    @property
    def provider(self) -> MockProvider:
        __tracebackhide__ = True
        if self._provider is None:
            self._provider = MockProvider(self._location(), strict=self.plan.strict, sink=self.log)
        return self._provider

    @property
    def toolbox(self) -> ReplayedTools:
        __tracebackhide__ = True
        if self._toolbox is None:
            self._toolbox = replay_tools((), self._location(), strict=self.plan.strict)
        return self._toolbox

    @property
    def wires(self) -> Wires:
        __tracebackhide__ = True
        if self._wires is None:
            self._wires = Wires(self._location(), strict=self.plan.strict, sink=self.log)
        return self._wires

    def unused(self) -> list[Unused]:
        left = self._unused_calls()
        tools = [] if self._toolbox is None else self._toolbox.unused()
        return [*left, *(Unused(tool_key(each.key), each.position) for each in tools)]

    def close(self, *, passed: bool) -> Tally:
        tool_calls = [] if self._toolbox is None else self._toolbox.calls
        misfits = sum(call.mismatch is not None for call in tool_calls)
        unused = tuple(named(self.unused())) if passed else ()
        if self._provider is not None:
            run(self._provider.close())
        if self._toolbox is not None:
            self._toolbox.close()
        if self._wires is not None:
            self._wires.close()
        served = self.log.served + len(tool_calls) - misfits
        return Tally(self.plan.location, served, missed=self.log.missed + misfits, unused=unused)

    def _unused_calls(self) -> list[Unused]:
        """The entries that neither the provider has served nor a run over HTTP, of those that there were."""
        runs = [] if self._provider is None else [self._provider.unused()]
        runs += [] if self._wires is None else self._wires.unused()
        return [left for left in runs[0] if all(left in others for others in runs[1:])] if runs else []

    def _location(self) -> str:
        __tracebackhide__ = True
        if open_store(self.plan.location).exists():
            return self.plan.location
        hint = f"record it: pytest {shlex.quote(self.plan.node_id)} --offbook-record=once"
        raise InputError("no such recording", source=self.plan.location, hint=hint)
