"""What a client sees of an answer, in the words of the table."""

from __future__ import annotations

from msgspec import Struct

from tests.wire.conformance.answers import PLAIN

GOOD_ENDS = ("stop", "completed", "end_turn", "STOP")


class Seen(Struct, frozen=True):
    """The text, the vendor's word for its end, and the tools that were asked for with their arguments."""

    text: str
    end: str | None = None
    calls: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.calls:
            return ", ".join(f"asks for `{tool}` with `{arguments}`" for tool, arguments in self.calls)
        text = self._describe_text()
        if self.end in GOOD_ENDS:
            return text
        return f"{text}, `{self.end}`" if self.end else f"{text}, no error"

    def _describe_text(self) -> str:
        if self.text in ("", PLAIN):
            return "answer" if self.text else "no text"
        return "cut short" if PLAIN.startswith(self.text) else "other text"


class Other(Struct, frozen=True):
    """What came back is no answer of the SDK's."""

    kind: str

    def __str__(self) -> str:
        return f"{self.kind}, no error"


def describe_error(error: Exception) -> str:
    """An error by its name; one that is not of the SDK's own with its module."""
    module = type(error).__module__.split(".")[0]
    name = type(error).__name__
    return f"`{module}.{name}`" if module in ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3") else f"`{name}`"
