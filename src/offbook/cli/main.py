"""The `offbook` command: registers its subcommands, and turns errors into a message and an exit code."""

import sys
from typing import Annotated

import typer

from offbook.cli.commands import (
    demo,
    explore,
    graph,
    init,
    prompts,
    replay,
    resume,
    run,
    runs,
    schema,
    serve,
    test,
    validate,
)
from offbook.cli.commands.exec import execute
from offbook.cli.commands.recording import check, diff, merge, prune, redact, show
from offbook.cli.exit_codes import BAD_INPUT, FAILED, INTERRUPTED, MISMATCH
from offbook.cli.options import ProgramCommand
from offbook.errors import InputError, OffbookError, RecordingMismatchError
from offbook.version import __version__

app = typer.Typer(
    name="offbook",
    help="Run workflows, record the models and tools they talk to once, and replay them for ever.",
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
app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("run")(run.run)
app.command("replay")(replay.replay)
app.command("exec", context_settings={"allow_interspersed_args": False})(execute)
app.command("serve")(serve.serve)
app.command("explore", cls=ProgramCommand)(explore.explore)
app.command("test")(test.run_tests)
app.command("prompts")(prompts.prompts)
app.command("runs")(runs.runs)
app.command("resume")(resume.resume)
app.command("validate")(validate.validate)
app.command("graph")(graph.graph)
app.command("schema")(schema.schema)
app.add_typer(recording, name="recording")
recording.command("show")(show.show)
recording.command("check")(check.check)
recording.command("diff")(diff.diff)
recording.command("merge")(merge.merge)
recording.command("redact")(redact.redact)
recording.command("prune")(prune.prune)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"offbook {__version__}")
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
    except OffbookError as error:
        _end(error, FAILED)
    except KeyboardInterrupt:
        _end_interrupted()


def _wants_json() -> bool:
    """Whether the standard output is for JSON. Arguments of a program that is run are its own."""
    own = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    return "--json" in own and own[1] != "exec"


def _end_interrupted() -> None:
    from offbook.cli.output.console import ending_document

    if _wants_json():
        typer.echo(ending_document("SIGINT", "interrupted", exit_code=INTERRUPTED))
    sys.exit(INTERRUPTED)


def _end(error: OffbookError, code: int) -> None:
    from offbook.cli.output.console import error_document, print_message

    if _wants_json():
        typer.echo(error_document(error, exit_code=code))
    print_message("error: ", str(error), style="bold red", is_err=True)
    sys.exit(code)
