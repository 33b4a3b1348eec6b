"""What became of a command's calls, as a JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from offbook.cli.wire_options import WireOptions
from offbook.cli.wire_tally import WireTally
from offbook.errors import InputError


class ReportFile:
    """A report at `path`, if that is given: there when the command starts, and whole when it has ended.

    Raises:
        InputError: the path is `-`, as the standard output is the command's.
    """

    def __init__(self, path: str | None, options: WireOptions, command: Sequence[str]) -> None:
        if path == "-":
            raise InputError("the standard output is the command's", source="--report", hint="name a file")
        self._path = None if path is None else Path(path)
        self._head: dict[str, Any] = {
            "command": list(command),
            "mode": "record" if options.replay is None else "replay",
            "recording": options.recording,
        }

    def begin(self) -> None:
        """Put a report there that has no exit code yet.

        Raises:
            InputError: it cannot be written.
        """
        self._write({"exit_code": None, **self._head})

    def finish(self, tally: WireTally, *, exit_code: int, command_exit_code: int) -> None:
        """Put the whole report there.

        Raises:
            InputError: it cannot be written.
        """
        told = {"exit_code": exit_code, "command_exit_code": command_exit_code, **self._head}
        self._write(told | tally.document(with_calls=True))

    def _write(self, document: dict[str, Any]) -> None:
        if self._path is not None:
            from offbook.report.whole_file import write_whole

            write_whole(self._path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
