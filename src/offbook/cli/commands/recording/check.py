"""offbook recording check: can recordings be replayed, do they agree with their wire records, do they hold secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from offbook.cli.options import AsJson, Fields, Patterns, Recordings
from offbook.text import pluralize, printable

if TYPE_CHECKING:
    from offbook.recording.redact.redactor import Redactor, SecretFinding

FindingRow = dict[str, str]


def check(files: Recordings, pattern: Patterns = [], field: Fields = [], as_json: AsJson = False) -> None:  # noqa: B006
    """Check that recordings can be replayed and hold no secrets.

    Also checks that each wire record agrees with the fields beside it. Exits with 1 if there is a problem, with 2 if a
    file cannot be read as a recording.

    [bold]Examples[/bold]

      offbook recording check tests/recordings/*.json

      offbook recording check runs/today.json --pattern 'CUST-[0-9]{6}' --field email
    """
    import orjson

    from offbook.errors import InputError
    from offbook.recording.redact.redactor import Redactor

    redactor = Redactor(patterns=tuple(pattern), fields=tuple(field))
    rows: list[FindingRow] = []
    for file in files:
        try:
            rows += _findings(file, redactor)
        except InputError as error:
            rows.append({"file": file, "key": "", "place": error.place, "problem": f"unreadable: {error}"})
    if as_json:
        typer.echo(orjson.dumps({"files": len(files), "findings": rows}))
    else:
        _print(files, rows)
    if rows:
        raise typer.Exit(2 if any(row["problem"].startswith("unreadable") for row in rows) else 1)


def _findings(file: str, redactor: Redactor) -> list[FindingRow]:
    from offbook.recording.format.document import FORMAT_VERSION, rules_from_meta
    from offbook.recording.format.keys import tool_key
    from offbook.recording.maintain.wire_check import disagreement
    from offbook.recording.stores.locate import open_store

    reader = open_store(file).read()
    rules_from_meta(reader.meta, source=file)
    rows: list[FindingRow] = []
    if reader.version < FORMAT_VERSION:
        problem = (
            f'version {reader.version}: cannot be replayed strictly; record it again, or put "_version": 2 at its top'
        )
        rows.append({"file": file, "key": "", "place": "_version", "problem": problem})
    for stored in reader:
        http = {"http": place} if (place := stored.exchange.http_place()) else {}
        rows += [_row(file, stored.key, finding) | http for finding in redactor.findings(stored.exchange)]
        if problem := disagreement(stored.exchange):
            rows.append({"file": file, "key": stored.key, "place": "wire", "problem": problem})
    for call in reader.tools:
        rows += [_row(file, tool_key(call.key), finding) for finding in redactor.tool_findings(call.exchange)]
    return rows


def _row(file: str, key: str, finding: SecretFinding) -> FindingRow:
    return {"file": file, "key": key, "place": finding.path, "problem": f"looks like a {finding.kind}"}


def _print(files: list[str], rows: list[FindingRow]) -> None:
    for row in rows:
        if row["problem"].startswith("unreadable"):
            typer.echo(printable(row["problem"]))
        else:
            parts = (row["file"], row.get("http") or row["key"], row["place"], row["problem"])
            typer.echo(printable(": ".join(part for part in parts if part)))
    if any(row["problem"].startswith("looks like") for row in rows):
        typer.echo("hint: remove secrets with 'offbook recording redact FILE', and revoke those that were live")
    typer.echo(
        f"{pluralize(len(files), 'recording')} checked: " + (pluralize(len(rows), "problem") if rows else "no problems")
    )
