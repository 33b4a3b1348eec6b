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


class ImportKind(StrEnum):
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
    files: Annotated[list[str], typer.Argument(help="The other tool's files, which become one recording.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The recording: path.json, or sqlite:///path.db.")],
    kind: Annotated[
        ImportKind | None, typer.Option("--from", help="The format of the files; detected by default.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Import another tool's recording.

    Reads HAR archives, vcrpy cassettes, aimock fixtures, and OpenTelemetry and OpenInference spans as JSON. Secrets are
    removed. Exits with 1 and lists the parts that could not be mapped, if any.

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
    """Export a recording to another tool's format.

    har is an HTTP archive; otel and openinference are spans with messages, as OTLP in JSON, for trace viewers. Exits
    with 1 and lists the exchanges that could not be mapped, if any; with 2 if none could, and nothing is written.

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
        hint = "record it over HTTP: this format needs the request"
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
