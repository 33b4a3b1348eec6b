"""The `understudy` command: its subcommands, and how errors end it."""

import sys
from typing import Annotated

import typer

from understudy.cli import (
    recording_check,
    recording_diff,
    recording_merge,
    recording_prune,
    recording_redact,
    recording_show,
)
from understudy.errors import InputError, RecordingMismatchError, UnderstudyError
from understudy.version import __version__

FAILED, BAD_INPUT, MISMATCH, INTERRUPTED = 1, 2, 3, 130

app = typer.Typer(
    name="understudy",
    help="Record the models an agent talks to once, replay them for ever, and look at what was recorded.",
    epilog="Exit codes: 0 fine, 1 something was found or failed, 2 bad input, 3 a replay did not match its recording.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
recording = typer.Typer(
    help="Look at recordings, compare them, and keep them clean.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(recording, name="recording")
recording.command("show")(recording_show.show)
recording.command("check")(recording_check.check)
recording.command("diff")(recording_diff.diff)
recording.command("merge")(recording_merge.merge)
recording.command("redact")(recording_redact.redact)
recording.command("prune")(recording_prune.prune)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command; what goes wrong on purpose ends in one message and an exit code, never in a traceback."""
    try:
        app()
    except InputError as error:
        _end(error, BAD_INPUT)
    except RecordingMismatchError as error:
        _end(error, MISMATCH)
    except UnderstudyError as error:
        _end(error, FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _end(error: UnderstudyError, code: int) -> None:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(str(error), err=True)
    sys.exit(code)
