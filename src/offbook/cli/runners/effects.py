"""The effects that the program of `exec` reports while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from offbook.tools.effects import EFFECTS_VARIABLE, Effect, read_effect_lines
from offbook.wire.server.wire_server import WireServer


class EffectReports:
    """The file to which a command reports its effects, while the block lasts.

    Inside another run the file of that run stays, and nothing is read here.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._is_outermost = EFFECTS_VARIABLE not in environment
        self._folder = TemporaryDirectory(prefix="offbook-")
        self._file = Path(self._folder.name) / "effects.jsonl"

    @property
    def variables(self) -> dict[str, str]:
        return {EFFECTS_VARIABLE: str(self._file)} if self._is_outermost else {}

    def read(self, server: WireServer, *, is_cut_off: bool) -> list[Effect]:
        """Return the effects that were reported to the file, and over HTTP.

        Raises:
            InputError: a report is not an effect.
        """
        for session in server.sessions:
            for problem in islice(session.refused_effects, 1):
                raise problem
        data = self._file.read_bytes() if self._file.exists() else b""
        in_file = read_effect_lines(data, source=EFFECTS_VARIABLE, is_cut_off=is_cut_off)
        return [*in_file, *(effect for session in server.sessions for effect in session.effects)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._folder.cleanup()
