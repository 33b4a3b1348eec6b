"""offbook recording import and export: reads other tools' files, and writes HAR or spans."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import AsJson, Recording
from offbook.cli.output.console import echo, echo_json
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.wire.convert.trace import Unmapped


class Kind(StrEnum):
    """The kinds of files that can be imported."""

    har = "har"
    vcr = "vcr"
    aimock = "aimock"
    otel = "otel"
    openinference = "openinference"


class ExportFormat(StrEnum):
    """The formats that a recording can be exported to."""

    har = "har"
    otel = "otel"
    openinference = "openinference"


Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output.")]


def import_traces(
    files: Annotated[list[str], typer.Argument(help="Files of another tool; they become one recording.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The recording: path.json, or sqlite:///path.db.")],
    kind: Annotated[Kind | None, typer.Option("--from", help="The kind of the files, if not as recognised.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a recording of what another tool has written.

    Reads HAR archives, cassettes of vcrpy, fixtures of aimock, and spans of OpenTelemetry and OpenInference as JSON.
    Secrets are removed. Exits with 1 if a part of a file could not be mapped, and lists it.

    [bold]Examples[/bold]

      offbook recording import trace.har --output run.json

      offbook recording import spans.jsonl logs.jsonl --from otel --output run.json
    """
    from offbook.errors import InputError
    from offbook.recording.edit import save_new
    from offbook.recording.format.document import Document
    from offbook.recording.redact.rules import redactor_in_force
    from offbook.recording.stores.locate import open_store
    from offbook.wire.convert.reader import read_traces
    from offbook.wire.convert.trace import record_trace

    store, document = open_store(output), Document()
    trace = read_traces(files, kind=None if kind is None else kind.value)
    unmapped = record_trace(trace, document, redactor=redactor_in_force())
    if not document.size:
        for each in unmapped:
            echo(f"not mapped: {each.place}: {each.reason}", err=True)
        raise InputError("there is no call that can be recorded", source=", ".join(files))
    save_new(store, document, force=force)
    _report(output, document.size, unmapped, as_json=as_json, enclosing=trace.enclosing)
    raise typer.Exit(1 if unmapped else 0)


def export(
    file: Recording,
    output: Annotated[str, typer.Option("--output", "-o", help="The file to write; by default, print it.")] = "",
    format: Annotated[ExportFormat, typer.Option("--format", help="The format to write.")] = ExportFormat.har,
    force: Force = False,
) -> None:
    """Write a recording in the format of other tools.

    har is an archive of HTTP; otel and openinference are spans with messages, as OTLP in JSON, for tools that show
    traces. Exits with 1 if an exchange could not be mapped, and lists it; with 2 if none could, and nothing is written.

    [bold]Examples[/bold]

      offbook recording export run.json --format har --output run.har

      offbook recording export run.json --format otel --output spans.json
    """
    from pathlib import Path

    from offbook.errors import InputError
    from offbook.files import write_output
    from offbook.recording.stores.locate import open_store

    document = open_store(file).load()
    if format == ExportFormat.har:
        from offbook.wire.convert.har import write_har

        data, unmapped = write_har(document)
    else:
        from offbook.wire.convert.span_writer import write_spans

        data, unmapped = write_spans(document, kind="otel" if format == ExportFormat.otel else "openinference")
    for each in unmapped:
        echo(f"not mapped: {each.place}: {each.reason}", err=not output)
    if document.size and document.size == len(unmapped):
        hint = "record it over HTTP: an entry without its request has no place there"
        raise InputError("no exchange can be exported", source=file, hint=hint)
    if not output:
        echo(data.decode(), nl=False)
    elif Path(output).exists() and not force:
        raise InputError("it already exists", source=output, hint="name another output, or pass --force")
    else:
        try:
            write_output(output, data)
        except OSError as error:
            raise InputError(error.strerror or str(error), source=output) from None
        echo(f"{output}: {pluralize(document.size - len(unmapped), 'exchange')}, {len(unmapped):,} not mapped")
    raise typer.Exit(1 if unmapped else 0)


def _report(output: str, size: int, unmapped: list[Unmapped], *, as_json: bool, enclosing: int) -> None:
    if as_json:
        import msgspec

        fields = {"output": output, "exchanges": size, "enclosing_spans": enclosing, "unmapped": unmapped}
        echo_json(msgspec.json.encode(fields))
        return
    for each in unmapped:
        echo(f"not mapped: {each.place}: {each.reason}")
    counts = [pluralize(size, "exchange"), f"{len(unmapped):,} not mapped"]
    if enclosing:
        counts.append(f"{pluralize(enclosing, 'span')} without a call")
    echo(f"{output}: {', '.join(counts)}")
