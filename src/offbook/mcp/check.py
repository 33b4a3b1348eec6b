"""Checks the MCP servers of a recording: schemas, names, secrets, and text that reads like instructions to a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from offbook.errors import InputError, MockError, ToolArgumentsError
from offbook.mcp.message import MessageError, parse_message
from offbook.mcp.replay import PROTOCOL
from offbook.mcp.surface import Surface, surfaces_of
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, each_exchange, exchanges_of
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.format.keys import is_mcp_key, split_mcp_key, tool_key
from offbook.recording.redact.redactor import Redactor
from offbook.scenarios.real_tool import ResultCheck, build_result_check
from offbook.text import UserPattern, shorten
from offbook.tools import ToolSpec

Kind: TypeAlias = Literal["schema", "name", "secret", "injection", "arguments", "result"]
MAX_PREFIXED_CHARS = 64
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_UNFIT_FOR_MODELS = re.compile(r"[^A-Za-z0-9_-]")
_READ_METHODS = ("prompts/get", "resources/read")
_EXCERPT_CHARS = 80
_MAX_DEPTH = 60

INSTRUCTIONS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "tells the model to ignore its instructions": r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}"
        r"\b(?:previous|prior|above|earlier|preceding|all|any|system|your|other)\b[^.\n]{0,30}"
        r"\b(?:instructions?|prompts?|rules|guidelines|directions|policies)\b",
        "tells the model to hide something from the user": r"\b(?:do not|don['’]t|never|without|avoid|must not)\s+"
        r"(?:tell|mention|inform|notify|reveal|disclos|alert|let|ask)\w*\s+"
        r"(?:(?:this|it|that|anything|about|to|them|the|your|any)\s+){0,4}(?:users?|humans?|operator|customer)\b",
        "has a block that speaks to a model": r"<\s*/?\s*(?:important|system|instructions?|secret|admin|hidden)\s*>"
        r"|\[/?INST\]|<\|(?:im_start|im_end|system|user|assistant)\|>",
        "gives the model new instructions": r"\bnew\s+(?:system\s+)?instructions?\s*:|\bsystem\s+prompt\s*:"
        r"|\byou\s+are\s+now\s+(?:a|an|in)\s+\w+\s+(?:mode|assistant|agent|ai)\b",
        "asks the model to send data elsewhere": r"\b(?:send|post|upload|forward|transmit|exfiltrate|leak|e-?mail)\b"
        r"[^.\n]{0,60}\b(?:conversations?|history|credentials?|passwords?|tokens?|api[ _-]?keys?|secrets?|prompts?|"
        r"contents of|messages|environment variables)\b[^\n]{0,60}(?:https?://|[\w.+-]+@[\w-]+\.\w)",
        "has a command that runs code from the network": r"\b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:sudo\s+)?"
        r"(?:ba|z|da)?sh\b",
        "asks the model to read secrets": r"\b(?:read|open|cat|print|include|pass|provide|attach)\b[^.\n]{0,60}"
        r"(?:\.ssh/|\bid_(?:rsa|ed25519)\b|\.aws/credentials|/etc/(?:passwd|shadow)|(?<!\w)\.env\b)",
    }.items()
}
"""Patterns of text that a model should not read, by their description in a finding."""

_HIDDEN = re.compile(
    "[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0100-\U000e01ef\x1b]"
    "|(?<![\U0001f3f4\U000e0000-\U000e007f])[\U000e0000-\U000e007f]"
)
"""Characters that only a model sees: zero-width characters, direction marks, tags. Tags of a flag, and joiners of
letters or emojis, are accepted.
"""


class McpFinding(Struct, frozen=True):
    """A problem of a recorded server: its place, its kind, and its description."""

    place: str
    kind: Kind
    problem: str


def check_recording(document: Document, *, patterns: Sequence[UserPattern] = ()) -> list[McpFinding]:
    """Return the problems of a recording's MCP servers. `patterns` are further patterns of suspicious text."""
    redactor = Redactor()
    texts = _TextCheck(patterns, redactor)
    surfaces = surfaces_of(each_exchange(document.tools))
    findings = [found for server, surface in surfaces.items() for found in _check_surface(server, surface, texts)]
    findings += _prefixed_names(surfaces)
    for key in document.tools:
        calls = exchanges_of(document.tools, key)
        tool = None if is_mcp_key(key) else _tool_of(key, surfaces)
        for index, exchange in enumerate(calls):
            place = f"{tool_key(redactor.text(key))}[{index}]"
            secrets = redactor.tool_findings(exchange)
            findings += [McpFinding(f"{place}.{each.path}", "secret", f"looks like a {each.kind}") for each in secrets]
            if tool is not None:
                findings += _check_call(exchange, tool, place, texts)
            elif is_mcp_key(key) and split_mcp_key(key)[1] in _READ_METHODS:
                findings += texts.check(exchange.answer, f"{place}.result")
    return list(dict.fromkeys(findings))


class _TextCheck:
    """Finds text that reads like instructions to a model."""

    def __init__(self, patterns: Sequence[UserPattern], redactor: Redactor) -> None:
        self._patterns, self.redactor = patterns, redactor

    def check(self, value: Any, place: str, depth: int = 0) -> Iterator[McpFinding]:
        """Yield the suspicious parts of all texts in a JSON value."""
        if isinstance(value, str):
            yield from (McpFinding(place, "injection", problem) for problem in self._problems(value))
        elif isinstance(value, dict) and depth < _MAX_DEPTH:
            for name, item in value.items():
                yield from self.check(item, f"{place}.{name}", depth + 1)
        elif isinstance(value, list) and depth < _MAX_DEPTH:
            for index, item in enumerate(value):
                yield from self.check(item, f"{place}[{index}]", depth + 1)

    def _problems(self, text: str) -> Iterator[str]:
        if hidden := _HIDDEN.findall(text):
            names = ", ".join(dict.fromkeys(f"U+{ord(each):04X}" for each in hidden))
            yield f"has invisible characters: {shorten(names, _EXCERPT_CHARS)}"
        seen = _HIDDEN.sub("", text)
        for name, pattern in INSTRUCTIONS.items():
            if found := pattern.search(seen):
                yield f"{name}: {self._excerpt(found[0])}"
        for given in self._patterns:
            for start, end in given.spans(seen)[:1]:
                yield f"matches {given.text}: {self._excerpt(seen[start:end])}"

    def _excerpt(self, text: str) -> str:
        return repr(shorten(self.redactor.text(" ".join(text.split())), _EXCERPT_CHARS))


def _check_surface(server: str, surface: Surface, texts: _TextCheck) -> Iterator[McpFinding]:
    if instructions := surface.about.get("instructions"):
        yield from texts.check(instructions, f"{server}: instructions")
    for section, items in surface.sections.items():
        for name, item in items.items():
            place = f"{server}: {section}.{name}"
            yield from texts.check(item, place)
            if section == "tools":
                yield from _check_definition(item, place)


def _check_definition(tool: JsonObject, place: str) -> Iterator[McpFinding]:
    name = tool["name"]
    if not _NAME.fullmatch(name):
        reason = f"has {len(name)} characters" if len(name) > 128 else "has other characters than A-Z a-z 0-9 _ - ."
        yield McpFinding(place, "name", f"the name {reason if name else 'is empty'}")
    if "inputSchema" not in tool:
        yield McpFinding(place, "schema", "it has no inputSchema")
    for field in ("inputSchema", "outputSchema"):
        problem = _schema_problem(tool, field)
        if problem:
            yield McpFinding(f"{place}.{field}", "schema", problem)


def _schema_problem(tool: JsonObject, field: str) -> str:
    schema = tool.get(field, {})
    if not isinstance(schema, dict):
        return "it is not a JSON schema"
    if field in tool and schema.get("type") != "object":
        return "its type is not object"
    try:
        ToolSpec(tool["name"], parameters=schema)
    except InputError as error:
        place = error.place.removeprefix("parameters").removeprefix(".")
        return f"{place}: {error.reason}" if place else error.reason
    return ""


def _prefixed_names(surfaces: Mapping[str, Surface]) -> Iterator[McpFinding]:
    """Yield the tools whose names fail behind the prefix that clients add for a model.

    Clients know a server recorded as `scenario/agent/1/server` as `server`, among those of that conversation.
    """
    prefixed: dict[tuple[str, str], str] = {}
    for recorded_as, surface in surfaces.items():
        conversation, _, server = recorded_as.rpartition("/")
        for tool in surface.tools:
            place = f"{recorded_as}: tools.{tool}"
            name = _UNFIT_FOR_MODELS.sub("_", f"mcp__{server}__{tool}")
            if len(name) > MAX_PREFIXED_CHARS:
                problem = f"with its prefix, {shorten(name, 90)}, the name has {len(name)} characters: models take 64"
                yield McpFinding(place, "name", problem)
            if (conversation, name) in prefixed:
                yield McpFinding(place, "name", f"clients call it {name}, as they call {prefixed[conversation, name]}")
            prefixed.setdefault((conversation, name), place)


def _tool_of(key: str, surfaces: Mapping[str, Surface]) -> JsonObject | None:
    """Return the definition of the tool of a recording key: empty if it was not listed, and None if the key is not an
    MCP server's.
    """
    for server in surfaces:
        if key.startswith(f"{server}."):
            return surfaces[server].tools.get(key.removeprefix(f"{server}."), {})
    return None


def _check_call(exchange: ToolExchange, tool: JsonObject, place: str, texts: _TextCheck) -> Iterator[McpFinding]:
    response = _result_of(exchange)
    yield from texts.check(response.get("content", response.get("structuredContent")), f"{place}.result")
    if exchange.error is not None:
        yield from texts.check(exchange.error.message, f"{place}.error")
    if not tool:
        return
    if (
        isinstance(exchange.arguments, dict)
        and exchange.arguments_hash is None
        and not _schema_problem(tool, "inputSchema")
    ):
        try:
            ToolSpec(tool["name"], parameters=tool.get("inputSchema")).check(exchange.arguments)
        except ToolArgumentsError as error:
            problems = "; ".join(error.problems)
            yield McpFinding(f"{place}.arguments", "arguments", f"they do not fit the inputSchema: {problems}")
    output = tool.get("outputSchema")
    if output is not None and exchange.error is None and not _schema_problem(tool, "outputSchema"):
        yield from _result_problems(response, build_result_check(output, tool=tool["name"]), place)


def _result_problems(response: JsonObject, check: ResultCheck, place: str) -> Iterator[McpFinding]:
    if response.get("resultType", "complete") != "complete":
        return
    structured = response.get("structuredContent")
    if structured is None:
        problems: Iterable[str] = ["there is no structuredContent"]
    else:
        try:
            problems = check.problems(structured)
        except MockError as error:
            problems = [str(error)]
    for problem in problems:
        yield McpFinding(f"{place}.result", "result", f"it does not fit the outputSchema: {problem}")


def _result_of(exchange: ToolExchange) -> JsonObject:
    """Return the result of a recorded tool call as the server sent it, or as a replay would make it."""
    wire = exchange.wire
    if wire is not None and wire.protocol == PROTOCOL:
        lines = [line for _, line in wire.timed_frames() if line.strip()]
        try:
            result = parse_message(lines[-1]).fields.get("result") if lines else None
        except MessageError:
            result = None
        if isinstance(result, dict):
            return result
    value = exchange.answer
    if isinstance(value, dict):
        return value if "resultType" in value else {"structuredContent": value}
    return {"content": value}
