"""What others have said, put before a model as data that it cannot take for anything else."""

from __future__ import annotations

import json

import orjson

from offbook.tools.result_text import result_text


def as_data(tag: str, value: object) -> str:
    """The value as JSON between tags. No text in the value can end it: there is no `<` or `>` in the JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = text.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<{tag}>\n{escaped}\n</{tag}>"


def plain(value: object) -> object:
    """The value as JSON has it; what has no JSON as text."""
    if isinstance(value, str):
        return value
    text = result_text(value)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
