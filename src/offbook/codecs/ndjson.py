"""JSON lines: bytes to lines, however they are cut, and back."""

from offbook.codecs.one_line import on_one_line


class NdjsonDecoder:
    """Splits a body into its lines. Blank ones are dropped."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        first, *others = data.split(b"\n")
        self._pending.append(first)
        if not others:
            return []
        lines = [b"".join(self._pending), *others[:-1]]
        self._pending = [others[-1]]
        return [line for line in lines if line.strip()]

    def close(self) -> list[bytes]:
        """The line that the end of the body completes, if one was under way."""
        return self.feed(b"\n")


def encode_line(data: bytes) -> bytes:
    """One line. `data` must be JSON without line breaks, as compact JSON is."""
    return on_one_line(data) + b"\n"
