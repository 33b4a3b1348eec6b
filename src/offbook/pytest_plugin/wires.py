"""The HTTP clients and servers of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace
from typing_extensions import Unpack

from offbook.faults import FaultPlan
from offbook.recording.cursor import Unused
from offbook.wire.log import Miss
from offbook.wire.stage import StageOptions
from offbook.wire.stage_log import StageLog
from offbook.wire.stand_in import StandIn, StandInOptions
from offbook.wire.upstream_environment import upstreams_of

if TYPE_CHECKING:
    from offbook.wire.serving import WireServer


class Wires:
    """What stands in for APIs behind HTTP in one test, opened as far as it is asked for."""

    def __init__(self, recording: str | None = None, **options: Unpack[StandInOptions]) -> None:
        self._recording, self._options = recording, options
        self._opened: list[StageLog] = []

    @cached_property
    def stand_in(self) -> StandIn:
        """Answers clients in the test's own process."""
        stand_in = StandIn(self._recording, **self._options)
        self._opened.append(stand_in)
        return stand_in

    @contextmanager
    def serving(
        self, *, upstreams: Mapping[str, str] | None, upstream_keys: Mapping[str, str] | None
    ) -> Iterator[WireServer]:
        """Answers programs at an address, while the block runs. `upstreams` and `upstream_keys` count when recording:
        an API that is not named is asked where the environment says that it is."""
        from offbook.wire.serving import WireServer  # noqa: PLC0415 - few tests need a server

        options = StageOptions(recording=self._recording, **self._options)
        if options.record is not None:
            told = upstreams_of(os.environ) | dict(upstreams or {})
            options = replace(options, upstreams=told, upstream_keys=upstream_keys)
        with WireServer(options) as server:
            self._opened.append(server)
            yield server

    @property
    def is_opened(self) -> bool:
        return bool(self._opened)

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for opened in self._opened for miss in opened.misses]

    def unused(self) -> list[list[Unused]]:
        """The entries of the recording that were not served, of every run over it."""
        return [session.unused() for opened in self._opened for session in opened.sessions or [opened.session("")]]

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on. Those of tools strike where the tools are called."""
        of_models = FaultPlan([line for line in plan if line.at.tool is None], chaos=plan.chaos)
        self._options["faults"] = of_models
        for opened in self._opened:
            opened.follow(of_models)

    def close(self) -> None:
        """Let go of the recording."""
        if "stand_in" in vars(self):
            self.stand_in.close()
