"""Distinguishes a bug in a mock's code from an error that the mock raises on purpose."""

from __future__ import annotations

import builtins
import dis
import traceback
from pathlib import Path
from types import TracebackType

from offbook.errors import MockError
from offbook.text import did_you_mean

# A TypeError may be the model's: it has given text where a number is expected. So may a missing method of a value.
_BUGS = (NameError, AttributeError, ImportError)
"""Errors that Python raises for broken code. A mock may also raise them on purpose, with `raise`."""

_JSON_TYPES = (str, int, float, bool, type(None), list, dict)
_OWN_FOLDER = Path(__file__).parents[1]


def mock_bug(error: Exception, *, tool: str) -> MockError | None:
    """Return the error of the test for a bug in a mock's function, or None for an error that the mock raised on
    purpose.
    """
    if not isinstance(error, _BUGS) or _is_of_other_value(error):
        return None
    frames = [each for each, _ in traceback.walk_tb(error.__traceback__)]
    own = [each for each in frames if not Path(each.f_code.co_filename).is_relative_to(_OWN_FOLDER)]
    last = _last(error.__traceback__)
    if not own or last is None or (frames[-1].f_code.co_filename == own[0].f_code.co_filename and _raises(last)):
        return None
    place = next(
        each for each in traceback.extract_tb(error.__traceback__) if each.filename == own[0].f_code.co_filename
    )
    hint = did_you_mean(getattr(error, "name", None) or "", _known_names(error, last))
    described = f"{type(error).__name__}: {error}"
    where = f"{Path(place.filename).name}:{place.lineno}"
    return MockError(f"the mock of {tool!r} has a bug: {described} ({where}){hint and f'; {hint}'}", tool=tool)


def _is_of_other_value(error: Exception) -> bool:
    """Return whether an argument of another type than the mock expects explains the error."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, _JSON_TYPES):
        return False
    return any(hasattr(kind, error.name or "") for kind in _JSON_TYPES)


def _last(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _raises(trace: TracebackType) -> bool:
    """Return whether the code raised the error with a `raise` statement."""
    instructions = dis.get_instructions(trace.tb_frame.f_code)
    return any(each.offset == trace.tb_lasti and each.opname == "RAISE_VARARGS" for each in instructions)


def _known_names(error: Exception, trace: TracebackType) -> list[str]:
    """Return the names that the code could have meant."""
    if isinstance(error, AttributeError):
        return [name for name in dir(getattr(error, "obj", None)) if not name.startswith("_")]
    frame = trace.tb_frame
    return [*frame.f_locals, *frame.f_globals, *dir(builtins)] if isinstance(error, NameError) else []
