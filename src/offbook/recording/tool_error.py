"""Errors of tools: as files spell them, and raised again."""

from __future__ import annotations

from offbook.errors import RecordedToolError, ToolResolutionError, ToolTimeoutError
from offbook.recording.tool_exchange import RecordedError
from offbook.tools.definition import ToolDef
from offbook.tools.result_text import shown


class _KeyError(KeyError):
    """A KeyError that says its message as it is, where the built-in one would quote it."""

    __str__ = Exception.__str__


_KeyError.__name__ = _KeyError.__qualname__ = "KeyError"

_OPERATING_SYSTEM = (
    *(OSError, BlockingIOError, ChildProcessError, FileExistsError, FileNotFoundError, InterruptedError),
    *(IsADirectoryError, NotADirectoryError, PermissionError, ProcessLookupError, TimeoutError, ConnectionError),
    *(BrokenPipeError, ConnectionAbortedError, ConnectionRefusedError, ConnectionResetError),
)
_KNOWN: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, Exception, FloatingPointError),
        *(ImportError, IndexError, LookupError, MemoryError, ModuleNotFoundError, NameError, NotImplementedError),
        *(OverflowError, RecursionError, ReferenceError, RuntimeError, TypeError, UnicodeError, ValueError),
        *(ZeroDivisionError, ToolResolutionError, _KeyError),
        *_OPERATING_SYSTEM,
    )
}
"""The errors that are raised again as what they were. Nothing that a file names is looked up anywhere else."""


def recorded_error(error: Exception) -> RecordedError:
    """The error as files spell it."""
    return RecordedError(type(error).__name__, shown(error).encode(errors="replace").decode())


def error_of(recorded: RecordedError, *, tool: ToolDef) -> Exception:
    """The error that was recorded: of its own class where that is a well-known one, else a RecordedToolError.

    Its text, and the name of its class, are the recorded ones.
    """
    if recorded.type == "ToolTimeoutError":
        late = ToolTimeoutError(tool=tool.name, timeout_s=tool.timeout_s or 0.0)
        late.args = (recorded.message,)
        return late
    kind = _KNOWN.get(recorded.type)
    return RecordedToolError.of(recorded.type, recorded.message) if kind is None else kind(recorded.message)
