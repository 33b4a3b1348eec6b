"""The fingerprint: the SHA-256 that identifies a request, whatever its ids and whoever makes it."""

from hashlib import sha256

import orjson

from offbook.errors import RequestError
from offbook.messages import JsonObject, Request
from offbook.recording.match.normalise import NO_RULES, NormaliseRules, apply_rules, normalise_messages

_OPTIONS = orjson.OPT_SORT_KEYS


def canonical_fields(request: Request) -> JsonObject:
    """What is asked, and nothing of who asks or how: the fields that the fingerprint covers.

    Raises:
        RequestError: the temperature is no number.
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
    """The request's fingerprint, in hex.

    Raises:
        RequestError: something in the request cannot be written as JSON.
    """
    return sha256(canonical_bytes(normalise_fields(canonical_fields(request), rules))).hexdigest()


def identify(request: Request, rules: NormaliseRules = NO_RULES) -> tuple[str, bytes]:
    """The request's fingerprint, and its canonical fields as JSON, noise and all. Raises like `fingerprint`."""
    fields = canonical_fields(request)
    data = canonical_bytes(fields)
    settled = normalise_fields(fields, rules)
    return sha256(data if settled is fields else canonical_bytes(settled)).hexdigest(), data


def normalise_fields(fields: JsonObject, rules: NormaliseRules = NO_RULES) -> JsonObject:
    """Canonical fields with the noise taken out; the same object if there was none."""
    settled = normalise_messages(fields["messages"])
    if settled is not None:
        fields = fields | {"messages": settled}
    return fields if rules is NO_RULES else apply_rules(fields, rules)


def plain_request(fields: JsonObject, rules: NormaliseRules = NO_RULES) -> JsonObject:
    """Canonical fields with the noise taken out, as JSON spells them: what two requests are compared by.

    Raises:
        RequestError: something in them cannot be written as JSON.
    """
    plain: JsonObject = orjson.loads(canonical_bytes(normalise_fields(fields, rules)))
    return plain


def canonical_bytes(fields: JsonObject) -> bytes:
    """The fields as sorted JSON.

    Raises:
        RequestError: something in them cannot be written as JSON.
    """
    try:
        return orjson.dumps(fields, option=_OPTIONS)
    except TypeError as error:
        raise RequestError(f"the request cannot be written as JSON: {error}", hint="pass plain JSON values") from None
