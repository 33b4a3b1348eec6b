"""The witness at the wire: sees every call that a program makes of models, and infers from that which tools it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.status import retry_after_s
from offbook.explore.forgetting import forgotten
from offbook.explore.run import CallOutcome, ModelCall, ToolRun
from offbook.explore.wire_reading import chunks_of, tools_asked_for
from offbook.faults.site import Site
from offbook.messages import JsonObject
from offbook.wire.answer import Answer
from offbook.wire.breakage import spoils
from offbook.wire.log import Outcome
from offbook.wire.taken import Taken

SHORT_WAIT_S = 0.1
"""A wait that nobody could be blamed for not keeping to."""


class _Heard(Struct, frozen=True):
    """A call that was answered at `at_s`."""

    taken: Taken
    answer: Answer
    outcome: Outcome
    site: Site
    at_s: float

    @property
    def messages(self) -> Sequence[JsonObject]:
        return () if self.taken.asked.request is None else self.taken.asked.request.messages

    @property
    def due_s(self) -> float:
        """When the next try may come."""
        wait_s = retry_after_s(self.answer.headers, now=SYSTEM_CLOCK.utc_now()) or 0.0
        return self.at_s + (wait_s if wait_s > SHORT_WAIT_S else 0.0)


class WireWitness:
    """Watches one run of a program. `on_endless` is called when it has made more than `max_calls` calls.

    `endless` says so, too; what comes after that is not noted.
    """

    def __init__(self, *, max_calls: int, on_endless: Callable[[], object]) -> None:
        self.endless = ""
        self._max_calls, self._on_endless = max_calls, on_endless
        self._heard: list[_Heard] = []
        self._arrived: set[int] = set()

    def answered(self, taken: Taken, answer: Answer, outcome: Outcome) -> None:
        if taken.site is None:
            return
        if len(self._heard) < self._max_calls:
            self._heard.append(_Heard(taken, answer, outcome, taken.site, SYSTEM_CLOCK.monotonic_s()))
        elif not self.endless:
            self.endless = f"it made more than {self._max_calls} calls of models"
            self._on_endless()

    def arrived(self, taken: Taken) -> None:
        self._arrived.add(taken.number)

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The calls of models so far."""
        return tuple(self._call(heard, self._heard[:place]) for place, heard in enumerate(self._heard.copy()))

    def tools(self, side_effects: Collection[str]) -> tuple[ToolRun, ...]:
        """The tools that complete answers have asked for, which the program is taken to have run then.

        One whose arguments are no JSON is not. The results are those that the program told the model.
        """
        told = dict(each for heard in self._heard for each in _results(heard.messages))
        counts = Counter[str]()
        runs = []
        for heard in self._heard:
            for call in tools_asked_for(heard.taken.asked, heard.answer) if self._has_come(heard) else ():
                if call.raw_arguments is None:
                    counts[call.tool] += 1
                    runs.append(
                        ToolRun(
                            tool=call.tool,
                            call=counts[call.tool],
                            arguments=call.args,
                            result=told.get(call.id or "", ""),
                            side_effect=call.tool in side_effects,
                        )
                    )
        return tuple(runs)

    def _call(self, heard: _Heard, before: Sequence[_Heard]) -> ModelCall:
        taken, site, request = heard.taken, heard.site, heard.taken.asked.request
        outcome = self._outcome(heard)
        asked_for = tools_asked_for(taken.asked, heard.answer) if outcome == "answered" else ()
        return ModelCall(
            number=site.overall,
            step_id=site.step_id,
            step_call=site.call,
            attempt=site.attempt,
            model=taken.asked.model,
            has_tools=request is not None and bool(request.tools),
            is_streamed=taken.asked.is_streamed,
            chunks=chunks_of(taken.asked, heard.answer),
            asks_for=tuple((call.tool, call.args) for call in asked_for),
            outcome=outcome,
            error=_told(heard) if outcome != "answered" else "",
            is_too_soon=_is_too_soon(heard, before),
            forgot=self._forgot(heard, before) if outcome == "diverged" else 0,
        )

    def _outcome(self, heard: _Heard) -> CallOutcome:
        if heard.outcome in ("missed", "default"):
            return "diverged"
        return "answered" if self._has_come(heard) else "failed"

    def _has_come(self, heard: _Heard) -> bool:
        """Whether the client has got a good answer, to its end."""
        if spoils(heard.taken.fault, heard.answer) or heard.answer.status != 200:
            return False
        return heard.answer.end_ms <= 0 or heard.taken.number in self._arrived

    def _forgot(self, heard: _Heard, before: Sequence[_Heard]) -> int:
        last = before[-1] if before else None
        return 0 if last is None or self._outcome(last) != "failed" else forgotten(last.messages, heard.messages)


def _is_too_soon(heard: _Heard, before: Sequence[_Heard]) -> bool:
    """Whether the last try of this call was told to wait for longer."""
    last = next((each for each in reversed(before) if each.site.overall == heard.site.overall), None)
    return last is not None and heard.at_s < last.due_s


def _told(heard: _Heard) -> str:
    """What the client got instead of an answer."""
    status, fault = heard.answer.status, heard.taken.fault
    if fault is not None and (status is None or status == 200):
        return fault.type
    return f"HTTP {status}"


def _results(messages: Sequence[JsonObject]) -> list[tuple[str, str]]:
    """What the model was told that tools gave, by the ids of their calls."""
    told = [message for message in messages if message.get("role") == "tool"]
    return [(str(message.get("tool_call_id")), str(message.get("content"))) for message in told]
