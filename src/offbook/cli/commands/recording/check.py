"""offbook recording check: checks that recordings can be replayed and hold no secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from offbook.cli.options import AsJson, Fields, Patterns, Personal
from offbook.cli.output.console import echo, echo_json
from offbook.codecs.base import Codec
from offbook.codecs.framing import encode_sse_event
from offbook.errors import ProviderError
from offbook.messages import Request, Response
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import PLAIN_HTTP, WEBSOCKET, WireRecord, json_documents
from offbook.text import pluralize, printable, suggestion
from offbook.vendors import CODECS

if TYPE_CHECKING:
    from offbook.recording.format.document import Document
    from offbook.recording.redact.redactor import Redactor, SecretFinding


_STREAMED = re.compile(r"text/event-stream|application/(x-ndjson|jsonl)")


def disagreement(exchange: Exchange) -> str:
    """Return the difference between a response's bytes and its exchange's fields, or "".

    A failed call, and an exchange that is not a model call, have no fields to compare.
    """
    record = exchange.wire
    if record is None or record.protocol in (PLAIN_HTTP, WEBSOCKET) or exchange.fault is not None:
        return ""
    codec = CODECS.get(record.protocol)
    if codec is None:
        known = suggestion(record.protocol, [*CODECS, PLAIN_HTTP, WEBSOCKET], kind="protocols")
        return f"the protocol {ascii(record.protocol)[:60]} is unknown; {known}"
    if record.status >= 400:
        return f"the status is {record.status}, but the fields have a response"
    try:
        response = _decoded_response(record, codec)
    except ProviderError as error:
        return printable(f"the bytes are not a response of {record.protocol}: {error}")
    recorded = _compared_fields(exchange.response(model="", provider=""))
    differing = [name for name, value in _compared_fields(response).items() if value != recorded[name]]
    if not differing:
        return ""
    return f'the bytes differ from the fields: {", ".join(differing)}; remove "wire" from the entry to serve the fields'


def _decoded_response(record: WireRecord, codec: Codec) -> Response:
    """Decode the response. Raise ProviderError without one."""
    content = record.content()
    if not record.is_streamed and not _STREAMED.match(record.headers.get("content-type", "")):
        return codec.decode_response(content)
    if content.lstrip().startswith(b"["):
        content = b"".join(encode_sse_event(orjson.dumps(document)) for document in json_documents(content))
    decoder = codec.stream_decoder()
    for _ in decoder.feed(content):
        pass
    return decoder.close()[1]


def _compared_fields(response: Response) -> dict[str, Any]:
    calls = [
        (call.tool, call.args if call.raw_arguments is None else call.raw_arguments) for call in response.tool_calls
    ]
    return {"content": response.content, "tool_calls": calls}


def illegal_request(exchange: Exchange) -> tuple[str, str]:
    """Return the place and the reason of an exchange's request that its vendor refuses, or "".

    A request without a provider must be accepted by one of the vendors that could have its model. A request that a
    real API answered was accepted.
    """
    from offbook.codecs.rules import PROTOCOLS, judges, refusal_of_request
    from offbook.vendors import CODEC_NAMES

    fields = exchange.request_fields()
    if fields is None or exchange.wire is not None or exchange.fault is not None:
        return "", ""
    known = CODEC_NAMES.get(exchange.provider)
    protocols = [name for name in (PROTOCOLS if known is None else (known,)) if judges(name, fields.get("model"))]
    if known is None and protocols == ["bedrock"]:  # others serve that model as well, and have no rules here
        return "", ""
    codecs = [CODECS[name] for name in protocols]
    request = Request(
        tuple(fields["messages"]),
        str(fields.get("model") or ""),
        temperature=fields.get("temperature"),
        max_tokens=fields.get("max_tokens"),
        tools=tuple(fields.get("tools") or ()),
        tool_choice=fields.get("tool_choice"),
        extra=fields.get("extra") or {},
    )
    refusals = [refusal_of_request(request, codec) for codec in codecs]
    if not all(refusals) or (first := next(iter(refusals), None)) is None:
        return "", ""
    who = "no vendor accepts" if known is None else f"{exchange.provider} refuses"
    return first.breach.place, f"{who} this request: {first.breach.reason}"


FED_BACK = "it is redacted and part of a later request: a replay asks with the redacted text, which does not match"


def fed_back_redactions(document: Document) -> list[str]:
    """Return the keys of redacted answers, and the tools with redacted results, that a later request repeats.

    Fingerprints are those of the original requests, so a replay that repeats redacted text has no answer.
    """
    from offbook.recording.format.document import exchanges_of
    from offbook.recording.format.keys import tool_key
    from offbook.recording.match.conversation import message_text
    from offbook.recording.redact.secret_kinds import PLAIN_MARK

    mark, keys = PLAIN_MARK.removesuffix(">"), dict[str, None]()
    results = [(tool, call.answer) for tool in document.tools for call in exchanges_of(document.tools, tool)]
    answers = {text.strip(): tool_key(tool) for tool, text in results if isinstance(text, str) and mark in text}
    for key, exchange in sorted(document, key=lambda entry: entry[1].recorded_at or ""):
        for message in (exchange.request_fields() or {}).get("messages", ()) if answers else ():
            said = message_text(message)
            if message.get("role") in ("assistant", "tool") and said in answers:
                keys[answers[said]] = None
        if mark in exchange.content:
            answers[exchange.content.strip()] = key
    return list(keys)


FindingRow = dict[str, str]


def check(
    files: Annotated[
        list[str],
        typer.Argument(help="Recordings, or folders of them: path.json, sqlite:///path.db, redis://host/0?prefix=…."),
    ],
    pattern: Patterns = [],  # noqa: B006
    field: Fields = [],  # noqa: B006
    personal: Personal = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Check that recordings can be replayed and hold no secrets.

    Also checks that wire records agree with their exchanges' fields, and that the real API would accept each
    hand-written request. In a folder, every *.json is checked and listed. Exits with 1 if there is a problem, with 2 if
    a file cannot be read as a recording.

    [bold]Examples[/bold]

      offbook recording check tests/recordings

      offbook recording check runs/today.json --pattern 'CUST-[0-9]{6}' --field email
    """
    import orjson

    from offbook.errors import InputError
    from offbook.recording.redact.redactor import RedactionRules
    from offbook.recording.redact.rules import redactor_in_force
    from offbook.recording.stores.locate import is_folder, recordings_in

    redactor = redactor_in_force().with_rules(RedactionRules(tuple(pattern), tuple(field), tuple(personal)))
    rows: list[FindingRow] = []
    has_folder = any(map(is_folder, files))
    files = [str(path) for file in files for path in (recordings_in(file) if is_folder(file) else [file])]
    for file in files:
        try:
            rows += _findings(file, redactor)
        except InputError as error:
            rows.append({"file": file, "key": "", "place": error.place, "problem": f"unreadable: {error}"})
    if as_json:
        echo_json(orjson.dumps({"files": len(files), "checked": files, "findings": rows}))
    else:
        _print(files, rows, is_listed=has_folder)
    if rows:
        raise typer.Exit(2 if any(row["problem"].startswith("unreadable") for row in rows) else 1)


def _findings(file: str, redactor: Redactor) -> list[FindingRow]:
    from offbook.cli.commands.recording.check import disagreement
    from offbook.recording.format.document import FORMAT_VERSION, exchanges_of, rules_from_meta
    from offbook.recording.format.keys import is_fingerprint, tool_key
    from offbook.recording.stores.locate import open_store

    document = open_store(file).load()
    rules_from_meta(document.meta, source=file)
    rows: list[FindingRow] = []
    if document.version < FORMAT_VERSION:
        problem = (
            f'version {document.version}: cannot be replayed strictly; record it again, or put "_version": 2 at its top'
        )
        rows.append({"file": file, "key": "", "place": "_version", "problem": problem})
    rows += [_row(file, "", found) for found in redactor.value_findings(document.meta, "_meta")]
    rows += [_row(file, "", found) for found in redactor.value_findings(document.rest, "")]
    for key in (name for name in document.entries if not is_fingerprint(name)):
        rows += [_row(file, redactor.text(key), found) for found in redactor.value_findings(key, "key")]
    for key, exchange in document:
        shown = key if is_fingerprint(key) else redactor.text(key)
        http = {"http": redactor.text(place)} if (place := exchange.http_place()) else {}
        rows += [_row(file, shown, finding) | http for finding in redactor.findings(exchange)]
        if problem := disagreement(exchange):
            rows.append({"file": file, "key": shown, "place": "wire", "problem": redactor.text(problem)})
        place, problem = illegal_request(exchange)
        if problem:
            rows.append({"file": file, "key": shown, "place": f"request.{place}", "problem": redactor.text(problem)})
    rows += [
        {"file": file, "key": key, "place": "content", "problem": FED_BACK} for key in fed_back_redactions(document)
    ]
    for tool in document.tools:
        shown = tool_key(redactor.text(tool))
        rows += [_row(file, shown, found) for found in redactor.value_findings(tool, "tool name")]
        for call in exchanges_of(document.tools, tool):
            rows += [_row(file, shown, finding) for finding in redactor.tool_findings(call)]
    return rows


def _row(file: str, key: str, finding: SecretFinding) -> FindingRow:
    return {"file": file, "key": key, "place": finding.path, "problem": f"looks like a {finding.kind}"}


def _print(files: list[str], rows: list[FindingRow], *, is_listed: bool) -> None:
    """Print the problems, and a line for each valid recording if they are listed."""
    bad = {row["file"] for row in rows}
    for file in (file for file in files if is_listed and file not in bad):
        echo(f"{file}: no problems")
    for row in rows:
        if row["problem"].startswith("unreadable"):
            echo(row["problem"])
        else:
            parts = (row["file"], row.get("http") or row["key"], row["place"], row["problem"])
            echo(": ".join(part for part in parts if part))
    if any(row["problem"].startswith("looks like") for row in rows):
        echo("hint: remove secrets with 'offbook recording redact FILE', and revoke those that were live")
    echo(
        f"{pluralize(len(files), 'recording')} checked: " + (pluralize(len(rows), "problem") if rows else "no problems")
    )
