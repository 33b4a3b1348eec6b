"""offbook serve: serves the vendors' APIs from a recording, or records them, until stopped."""

from __future__ import annotations

import typer

from offbook.cli.options import with_options
from offbook.wire.settings import ServeArguments


@with_options(ServeArguments)
def serve(options: ServeArguments, given: ServeArguments) -> None:
    """Serve the model APIs from a recording, or record them.

    Serves the APIs of OpenAI, Anthropic, Gemini and Ollama until Ctrl-C or SIGTERM, and writes a line for each call to
    stderr. An unrecorded call gets an error response or, with --lenient, a default. Exits with 0; with 1 if a call
    could not be recorded, or one of its processes died; with 3 if --strict-unused is given and an exchange was unused
    or overused; with 2 on bad input.

    [bold]Examples[/bold]

      offbook serve --replay runs/ --port 4010

      offbook serve --lenient

      offbook serve --record run.json --upstream openai=http://127.0.0.1:80/v1

      offbook serve --replay run.json --host 0.0.0.0 --api-key "$KEY"

      offbook serve --replay run.json -o processes=4

      offbook serve --replay redis://cache/0 -o session_group=load
    """
    import msgspec

    from offbook.cli import FAILED, FINE, MISMATCH
    from offbook.cli.output.console import echo_json, print_message
    from offbook.cli.output.wire import WireSummary
    from offbook.cli.runners.serve import serve_here, serve_in_processes
    from offbook.cli.runners.wire import with_record_mode
    from offbook.errors import InputError

    given.check_together()
    options = options.fitting(given)
    is_strict = options.strict_unused
    if options.session_group and not (options.replay or "").startswith(("redis://", "rediss://")):
        hint = "add --replay redis://HOST, or leave it out"
        raise InputError("servers share sessions through a recording in Redis", source="session_group", hint=hint)
    if (options.processes > 1 or options.session_group) and is_strict:
        hint = "leave it out, or use one process"
        raise InputError("each process counts what it has served", source="--strict-unused", hint=hint)
    options = with_record_mode(options)
    served = serve_here(options) if options.processes == 1 else serve_in_processes(options)
    tally = served.tally
    summary = WireSummary(
        tally,
        options.recording,
        is_folder=options.is_folder,
        is_quiet=options.quiet,
        is_strict=is_strict,
        is_closing_log=True,
    )
    if options.as_json:
        echo_json(msgspec.json.encode(tally.document(with_calls=False)).decode())
        summary.print_unrecorded()
    else:
        summary.print()
    for text in served.died:
        print_message("error: ", f"{text}; its calls are not counted", style="bold red", is_err=True)
    if tally.unrecorded or served.died:
        raise typer.Exit(FAILED)
    raise typer.Exit(MISMATCH if is_strict and (tally.unused or tally.overused) else FINE)
