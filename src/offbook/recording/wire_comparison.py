"""Comparing two records of what came over the wire."""

from __future__ import annotations

import re
from typing import Any

from offbook.messages import JsonObject
from offbook.recording.miss import difference_between
from offbook.recording.wire_pieces import joined, values_by_path
from offbook.recording.wire_record import WireRecord

_TELLING_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
_FLEETING = re.compile(
    r"(.*_)?id|.*Id|created|createTime|.*_at|.*_(duration|fingerprint|number|signature)|.*[sS]ignature"
    r"|obfuscation|encrypted_content"
)
"""Names of fields that are new in every answer."""


def wire_difference(old: WireRecord | None, new: WireRecord | None) -> str:
    """What differs, cut to one screen; empty if nothing does but times, ids and the places at which bytes were cut."""
    told = [_told(record) for record in (old, new)]
    return "" if told[0] == told[1] else difference_between(*told)


def _told(record: WireRecord | None) -> JsonObject:
    if record is None:
        return {}
    headers = {name: record.headers[name] for name in _TELLING_HEADERS if name in record.headers}
    told = {"protocol": record.protocol, "status": record.status, "streamed": record.is_streamed, "headers": headers}
    content = record.content()
    return told | (_said(content) or {"body": content.decode("utf-8", "backslashreplace")})


def _said(content: bytes) -> JsonObject:
    """What the JSON in an answer says at each path, without what is new in every answer."""
    values = values_by_path(content)
    names = {path: re.split(r"[.\[]", path)[-1] for path in values}
    return {
        f"body.{path}": _value(names[path], values[path]) for path in values if not _FLEETING.fullmatch(names[path])
    }


def _value(name: str, values: list[Any]) -> Any:
    """What texts spell out, or for what is told again and again, each that was told."""
    told = [value for value in values if value is not None]
    if told and name != "type" and all(isinstance(value, str) for value in told):
        return joined(told)
    return list(dict.fromkeys(told))
