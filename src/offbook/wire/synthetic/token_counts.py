"""Estimated token counts, in the formats of Anthropic, Gemini and OpenAI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.text import CHARS_PER_TOKEN, estimate_tokens
from offbook.wire.request import Vendor, read_body

TOKENS_PER_MESSAGE = 4
"""What a message has beside its text: its role, and the marks around it."""
TOKENS_PER_MEDIUM = 258
"""What an image, a sound or a file has, whatever its size."""

_UNCOUNTED_FIELDS = frozenset({"type", "role"})
_MEDIA = frozenset({"image", "input_image", "input_audio", "input_file"})
_MEDIA_TYPES = ("media_type", "mimeType", "mime_type")


class _Messages(Struct):
    messages: Annotated[list[JsonObject], Meta(min_length=1)]
    system: str | list[JsonObject] | None = None
    tools: list[JsonObject] | None = None


class _Contents(Struct, rename="camel"):
    contents: Annotated[list[JsonObject], Meta(min_length=1)]
    system_instruction: JsonObject | None = None
    tools: list[JsonObject] | None = None


class _WrappedContents(Struct, rename="camel"):
    generate_content_request: JsonObject | None = None


class _Input(Struct):
    input: str | list[JsonObject] | None = None
    instructions: str | None = None
    tools: list[JsonObject] | None = None


def token_count_answer(vendor: Vendor, body: JsonObject) -> JsonObject:
    """The answer of the vendor's endpoint that counts the tokens of a request.

    Raises:
        RequestError: the body is no request to this vendor, or the vendor counts no tokens.
    """
    count = _COUNTS.get(vendor)
    if count is None:
        raise RequestError(f"{vendor} has no endpoint that counts tokens", source="vendor", place=vendor)
    return count(body)


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: at least one."""
    return max(1, estimate_tokens(len(text)))


def _anthropic(body: JsonObject) -> JsonObject:
    asked = read_body(body, _Messages)
    return {"input_tokens": _count(asked.messages, asked.system, asked.tools)}


def _google(body: JsonObject) -> JsonObject:
    wrapped = read_body(body, _WrappedContents).generate_content_request
    if wrapped is None:
        asked = read_body(body, _Contents)
    else:
        asked = read_body(wrapped, _Contents, place="generateContentRequest")
    count = _count(asked.contents, asked.system_instruction, asked.tools)
    return {"totalTokens": count, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]}


def _openai(body: JsonObject) -> JsonObject:
    asked = read_body(body, _Input)
    items = [asked.input] if isinstance(asked.input, str) else asked.input or []
    return {"object": "response.input_tokens", "input_tokens": _count(items, asked.instructions, asked.tools)}


_COUNTS: dict[Vendor, Callable[[JsonObject], JsonObject]] = {
    "anthropic": _anthropic,
    "google": _google,
    "openai": _openai,
}


def _count(messages: Sequence[object], *others: object) -> int:
    return TOKENS_PER_MESSAGE * len(messages) + estimate_tokens(_chars([*messages, *others]))


def _chars(values: Iterable[object]) -> int:
    """The characters of all the text within the values; a medium has as many as its tokens would."""
    total, waiting = 0, list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict) and _is_medium(value):
            total += TOKENS_PER_MEDIUM * CHARS_PER_TOKEN
        elif isinstance(value, dict):
            waiting.extend(inner for name, inner in value.items() if name not in _UNCOUNTED_FIELDS)
    return total


def _is_medium(part: JsonObject) -> bool:
    kind = part.get("type")
    if kind == "text":
        return False
    return kind in _MEDIA or any(isinstance(part.get(name), str) for name in _MEDIA_TYPES)
