"""The fingerprint: the SHA-256 that identifies a request, without ids and other noise."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import orjson
from msgspec import Struct

from offbook.errors import InputError, RequestError
from offbook.messages import JsonObject, Request
from offbook.text import UserPattern, compile_pattern

MASK = "<masked>"
_OPTIONS = orjson.OPT_SORT_KEYS
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\*|\d+)\]")


class NormaliseRules(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The parts of requests that fingerprints ignore.

    `ignore` lists paths to omit, like `messages[*].content.timestamp`; a path may lead into a str that holds JSON.
    `mask` lists regular expressions whose matches count as equal. With `whitespace`, runs of whitespace count as one
    space. Without an equal request, one matches that differs only in who asks, when and where, unless `exact`. Without
    `home_paths`, home folders count.
    """

    ignore: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    whitespace: bool = False
    home_paths: bool = True
    exact: bool = False


NO_RULES = NormaliseRules()


def canonical_fields(request: Request) -> JsonObject:
    """Return the fields that the fingerprint covers: the request's content, not its sender or transport.

    Raises:
        RequestError: the temperature is not a number.
    """
    fields: JsonObject = {"model": request.model, "messages": request.messages}
    if request.temperature is not None:
        try:
            fields["temperature"] = float(request.temperature)
        except (TypeError, ValueError):
            raise RequestError(f"expected a number, got {request.temperature!r}", place="temperature") from None
    if request.max_tokens is not None:
        fields["max_tokens"] = request.max_tokens
    if request.tools:
        fields["tools"] = request.tools
    if request.tool_choice is not None:
        fields["tool_choice"] = request.tool_choice
    if request.extra:
        fields["extra"] = dict(request.extra)
    return fields


def fingerprint(request: Request, rules: NormaliseRules = NO_RULES) -> str:
    """Return the fingerprint of a request, in hex.

    Raises:
        RequestError: the request cannot be written as JSON.
    """
    return sha256(canonical_bytes(normalise_fields(canonical_fields(request), rules))).hexdigest()


def agentloom_fingerprints(request: Request) -> Iterator[str]:
    """Yield what AgentLoom (0.5 and later) takes for the hash of a request.

    A request with tools has none: there, tools are part of it in a form that ours does not have. A temperature of 0 may
    have been `0` or `0.0`, which are two hashes.
    """
    if request.tools:
        return
    given = request.temperature
    temperatures = [given] if given is None else [float(given), *([int(given)] if given == int(given) else [])]
    for temperature in temperatures:
        payload = {
            "messages": list(request.messages),
            "model": request.model,
            "temperature": temperature,
            "max_tokens": request.max_tokens,
            "extra": dict(request.extra),
        }
        try:
            yield sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
        except (TypeError, ValueError):  # what JSON does not have, AgentLoom cannot have recorded
            return


def identify(request: Request, rules: NormaliseRules = NO_RULES) -> tuple[str, bytes]:
    """Return the fingerprint of a request, and its canonical fields as JSON. Raises like `fingerprint`."""
    fields = canonical_fields(request)
    data = canonical_bytes(fields)
    normalised = normalise_fields(fields, rules)
    return sha256(data if normalised is fields else canonical_bytes(normalised)).hexdigest(), data


def normalise_fields(fields: JsonObject, rules: NormaliseRules = NO_RULES) -> JsonObject:
    """Return canonical fields without the noise, or the same object without any."""
    messages = normalise_messages(fields["messages"])
    if messages is not None:
        fields = fields | {"messages": messages}
    return fields if rules is NO_RULES else apply_rules(fields, rules)


def plain_request(fields: JsonObject, rules: NormaliseRules = NO_RULES) -> JsonObject:
    """Return canonical fields without the noise as JSON values, the form in which requests are compared.

    Raises:
        RequestError: the fields cannot be written as JSON.
    """
    plain: JsonObject = orjson.loads(canonical_bytes(normalise_fields(fields, rules)))
    return plain


def canonical_bytes(fields: JsonObject) -> bytes:
    """Return the fields as JSON with sorted keys.

    Raises:
        RequestError: the fields cannot be written as JSON.
    """
    try:
        return orjson.dumps(fields, option=_OPTIONS)
    except TypeError as error:
        raise RequestError(f"the request cannot be written as JSON: {error}", hint="pass plain JSON values") from None


def check_rules(rules: NormaliseRules, *, source: str = "") -> None:
    """Raise InputError if a path or pattern of the rules is invalid."""
    for name in ("ignore", "mask"):
        if not isinstance(getattr(rules, name), tuple | list):
            raise InputError(f"expected a list, got {getattr(rules, name)!r}", source=source, place=name)
    for path in rules.ignore:
        if "".join(match.group(0) for match in _STEP.finditer(path)) != path or not path:
            raise InputError(
                f"invalid path {path!r}", source=source, place="ignore", hint="like messages[*].content.id"
            )
    for pattern in rules.mask:
        compile_pattern(pattern, source=source, place="mask")


def normalise_messages(messages: Sequence[JsonObject]) -> list[JsonObject] | None:
    """Return the messages without their ids and None values, with tool-call ids renamed in order of appearance and
    adjacent tool results in the order of their calls. Return None if the messages already have this form.
    """
    for message in messages:
        if len(message) != 2 or message.get("content") is None:
            break
    else:
        return None
    names: dict[str, str] = {}
    normalised = [
        message if len(message) == 2 and message.get("content") is not None else _normalise_message(message, names)
        for message in messages
    ]
    return _results_in_order(normalised) if len(names) > 1 else normalised


def _normalise_message(message: JsonObject, names: dict[str, str]) -> JsonObject:
    fields = {name: value for name, value in message.items() if value is not None and name != "id"}
    calls = fields.get("tool_calls")
    if isinstance(calls, list | tuple):
        fields["tool_calls"] = [
            {**call, "id": _rename_call(call.get("id"), names)} if isinstance(call, dict) else call for call in calls
        ]
    if "tool_call_id" in fields:
        fields["tool_call_id"] = _rename_call(fields["tool_call_id"], names)
    return fields


def without_nulls(value: Any) -> Any:
    """Return JSON without null fields of its objects, at any depth."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list | tuple) else value


def _rename_call(call_id: object, names: dict[str, str]) -> str:
    return names.setdefault(str(call_id), f"call_{len(names):06d}")


def _results_in_order(messages: list[JsonObject]) -> list[JsonObject]:
    ordered: list[JsonObject] = []
    results: list[JsonObject] = []
    for message in messages:
        if message.get("role") == "tool" and "tool_call_id" in message:
            results.append(message)
        else:
            ordered += sorted(results, key=_call_id)
            results = []
            ordered.append(message)
    return ordered + sorted(results, key=_call_id)


def _call_id(message: JsonObject) -> str:
    return str(message["tool_call_id"])


def apply_rules(fields: JsonObject, rules: NormaliseRules) -> JsonObject:
    """Return the fields without the parts that the rules ignore.

    Raises:
        RequestError: a pattern of the rules takes too long.
    """
    cleaned: Any = fields
    for path in rules.ignore:
        cleaned = _without(cleaned, _steps(path))
    if rules.mask or rules.whitespace:
        try:
            patterns = [compile_pattern(pattern) for pattern in rules.mask]
            cleaned = {
                # Parameters such as the temperature are no text.
                name: each if isinstance(each, int | float) else _mask(each, patterns, whitespace=rules.whitespace)
                for name, each in cleaned.items()
            }
        except InputError as error:
            raise RequestError(error.reason, place="normalise.mask", hint=error.hint) from None
    return dict(cleaned)


@cache
def _steps(path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    for match in _STEP.finditer(path):
        name, index = match.groups()
        steps.append(name if name is not None else index if index == "*" else int(index))
    return tuple(steps)


def _without(value: Any, steps: tuple[str | int, ...]) -> Any:
    step, rest = steps[0], steps[1:]
    if isinstance(value, str):
        inner = _json_in(value)
        return value if inner is None else _without(inner, steps)
    if isinstance(value, dict):
        names = value.keys() if step == "*" else {step} & value.keys()
        changed = {name: _without(value[name], rest) for name in names} if rest else {}
        return {name: changed.get(name, old) for name, old in value.items() if rest or name not in names}
    if isinstance(value, list | tuple):
        is_covered = [step in ("*", index) for index in range(len(value))]
        if not rest:
            return [item for item, covered in zip(value, is_covered, strict=True) if not covered]
        return [_without(item, rest) if covered else item for item, covered in zip(value, is_covered, strict=True)]
    return value


def _json_in(text: str) -> dict[str, Any] | list[Any] | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict | list) else None


def _mask(value: Any, patterns: list[UserPattern], *, whitespace: bool) -> Any:
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.sub(MASK, value)
        return " ".join(value.split()) if whitespace else value
    if isinstance(value, dict):
        return {name: _mask(item, patterns, whitespace=whitespace) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask(item, patterns, whitespace=whitespace) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_masked = any(pattern.sub("", str(value)) == "" for pattern in patterns)
        return MASK if is_masked else value
    return value
