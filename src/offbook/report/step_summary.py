"""The summary of a step of a GitHub workflow: Markdown that several writers add to."""

from __future__ import annotations

from pathlib import Path

from offbook.errors import InputError

MAX_BYTES = 1_000_000  # GitHub drops a summary of more than 1024 KiB


class StepSummary:
    """Adds to the file that GitHub names in GITHUB_STEP_SUMMARY, as far as there is room; without a path, nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._bytes = path.stat().st_size if path is not None and path.exists() else 0

    def add(self, text: str, *, spare: int = 0) -> None:
        """Add the text, if `spare` bytes stay free behind it.

        Raises:
            InputError: the file cannot be written.
        """
        data = text.encode("utf-8", "replace")
        if self._path is None or self._bytes + len(data) + spare > MAX_BYTES:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise InputError(str(error.strerror), source=str(self._path)) from error
        self._bytes += len(data)
