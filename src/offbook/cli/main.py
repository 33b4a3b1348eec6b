"""The `offbook` command: runs a command of the application, and turns errors into an exit code."""

from __future__ import annotations

import gc
import sys
import time

from offbook.cli import BAD_INPUT, FAILED, INTERRUPTED, MISMATCH, start_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from offbook.errors import InputError, OffbookError

OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Imports create many lasting objects. Collecting garbage among them takes a fifth of a command's time."""


def main() -> None:
    """Run the command. An expected error prints one message and sets the exit code, without a traceback."""
    start_s.set(time.monotonic())
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    from offbook.cli.app import app
    from offbook.errors import InputError, OffbookError, RecordingMismatchError, RecordingWriteError

    try:
        app(prog_name="offbook")
    except InputError as error:
        _end(_with_own_option(error), FAILED if isinstance(error, RecordingWriteError) else BAD_INPUT)
    except RecordingMismatchError as error:
        _end(error, MISMATCH)
    except OffbookError as error:
        _end(error, FAILED)
    except KeyboardInterrupt:
        _end_interrupted()


def _wants_json() -> bool:
    """Return whether stdout is for JSON. Arguments after `--` belong to another program."""
    own = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    return "--json" in own and own[1] != "exec"


def _end_interrupted() -> None:
    from offbook.cli.output.console import echo_json, ending_document

    if _wants_json():
        echo_json(ending_document("SIGINT", "interrupted", exit_code=INTERRUPTED))
    sys.exit(INTERRUPTED)


_LENIENT_OPTIONS = {"replay": "--allow-default-fallback", "exec": "--lenient", "serve": "--lenient"}


def _with_own_option(error: InputError) -> InputError:
    """Return the error with the option of this command in its hint, where that names an argument of Python."""
    if "strict=False" not in error.hint:
        return error
    from offbook.recording.format.document import LENIENT_ADVICE

    command = "exec" if sys.argv[1] == "replay" and "--" in sys.argv else sys.argv[1]
    option = _LENIENT_OPTIONS.get(command)
    advice = f", or {LENIENT_ADVICE}"
    hint = error.hint.replace(advice, "" if option is None else f", or add {option}")
    return type(error)(error.reason, source=error.source, place=error.place, hint=hint)


def _end(error: OffbookError, code: int) -> None:
    from offbook.cli.output.console import echo_json, error_document, print_message

    if _wants_json():
        echo_json(error_document(error, exit_code=code))
    print_message("error: ", str(error), style="bold red", is_err=True)
    sys.exit(code)
