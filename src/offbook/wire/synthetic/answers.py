"""Answers to unrecorded requests that need no model: lists of models, token counts, embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Annotated
from urllib.parse import unquote

import orjson
from msgspec import Meta, Struct

from offbook.codecs.ollama import CREATED_AT
from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.text import CHARS_PER_TOKEN, estimate_tokens
from offbook.vendors import VENDORS
from offbook.wire.request import ParsedRequest, read_body
from offbook.wire.response import HttpResponse, error_response, whole_response
from offbook.wire.synthetic.embeddings import OLLAMA_DIMENSIONS, TOKENS_PER_MEDIUM, embeddings_answer

_PROBES = ("/", "/api/hello")
"""Paths that clients request first, to see whether a server is running."""


def synthetic_response(parsed: ParsedRequest, models: list[str]) -> HttpResponse:
    """Answer an unrecorded request deterministically: an embedding, a list of models, a token count, or 404.

    `models` are the models that the recording names.
    """
    if parsed.method == "HEAD" and parsed.place in _PROBES:
        return HttpResponse(200)
    try:
        body = _synthetic_body(parsed, models)
    except RequestError as error:
        return error_response(parsed.route.any_codec, 400, str(error))
    if body is None:
        path = parsed.place.partition("?")[0]
        message = parsed.problem or f"offbook does not stand in for {path}: only a recording of it answers"
        return error_response(parsed.route.any_codec, 400 if parsed.problem else 404, message)
    return whole_response(200, orjson.dumps(body))


def _synthetic_body(parsed: ParsedRequest, models: list[str]) -> JsonObject | None:
    vendor = VENDORS[parsed.route.vendor].like or parsed.route.vendor
    path = parsed.place.partition("?")[0]
    body = parsed.body if isinstance(parsed.body, dict) else {}
    match parsed.route.operation:
        case "embed":
            return embeddings_answer(vendor, path, body)
        case "models":
            return models_answer(vendor, path, models, body=body)
        case "count_tokens":
            return token_count_answer(vendor, body)
        case _:
            return None


OLLAMA_VERSION = "0.12.0"
CONTEXT_LENGTH = 131_072
"""The context length of each model."""

_ARCHITECTURE = "offbook"
_FAR_FUTURE = "2200-01-01T00:00:00Z"
_TEMPLATE = "{{ .System }}{{ .Tools }}{{ .Prompt }}"


class _ShowBody(Struct):
    model: str = ""
    name: str = ""


def ollama_models_answer(path: str, names: Sequence[str], body: JsonObject) -> JsonObject | None:
    """Answer at `path`, or return None for a model not in `names`, or an unknown path.

    A name without a tag has the tag `latest`.
    """
    tagged = list(dict.fromkeys(map(_tagged, names)))
    match path:
        case "/api/version":
            return {"version": OLLAMA_VERSION}
        case "/api/tags":
            return {"models": [_listed_model(name) | {"modified_at": CREATED_AT} for name in tagged]}
        case "/api/ps":
            return {"models": [_listed_model(name) | _loaded_fields() for name in tagged]}
        case "/api/show":
            return _show_model(body, tagged)
    return None


def _tagged(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _listed_model(name: str) -> JsonObject:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return {"name": name, "model": name, "size": 0, "digest": digest, "details": _details()}


def _loaded_fields() -> JsonObject:
    return {"expires_at": _FAR_FUTURE, "size_vram": 0, "context_length": CONTEXT_LENGTH}


def _details() -> JsonObject:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": _ARCHITECTURE,
        "families": [_ARCHITECTURE],
        "parameter_size": "1B",
        "quantization_level": "F16",
    }


def _show_model(body: JsonObject, names: Sequence[str]) -> JsonObject | None:
    parsed = read_body(body, _ShowBody)
    name = parsed.model or parsed.name
    if not name:
        raise RequestError("the body names no model", source="request body", place="model")
    return _description(name) if _tagged(name) in names else None


def _description(name: str) -> JsonObject:
    return {
        "modelfile": f"FROM {name}\nTEMPLATE {_TEMPLATE}\n",
        "parameters": "",
        "template": _TEMPLATE,
        "license": "",
        "details": _details(),
        "model_info": {
            "general.architecture": _ARCHITECTURE,
            "general.parameter_count": 1_000_000_000,
            f"{_ARCHITECTURE}.context_length": CONTEXT_LENGTH,
            f"{_ARCHITECTURE}.embedding_length": OLLAMA_DIMENSIONS,
        },
        "capabilities": ["completion", "tools"],
        "modified_at": CREATED_AT,
    }


_MODELS_PATH = re.compile(r".*?/models(?:/(?P<name>.*))?")
LONG_AGO, DAY_AFTER = "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"
_GOOGLE_PREFIX = "models/"


def models_answer(vendor: str, path: str, names: Sequence[str], *, body: JsonObject | None = None) -> JsonObject | None:
    """Answer the vendor's models endpoint at `path`, or return None for a model not in a non-empty `names`.

    A list is one page: the names in order, each once. Without known models, every name exists: calls to it are
    answered. Ollama's `/api/show` names its model in the `body`.

    Raises:
        RequestError: the body must name a model, and does not.
    """
    known = list(dict.fromkeys(names))
    if vendor == "ollama":
        return ollama_models_answer(path, known, body or {})
    if vendor not in _MODELS:
        raise RequestError(f"{vendor} has no list of models here", source="path", place=path)
    if vendor == "google":
        known = [name.removeprefix(_GOOGLE_PREFIX) for name in known]
    describe, listed = _MODELS[vendor]
    parsed = _MODELS_PATH.fullmatch(path)
    if parsed is None:
        return None
    if not parsed["name"]:
        return listed([describe(name) for name in known])
    name = unquote(parsed["name"])
    return describe(name) if name in known or not known else None


def _openai_model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": 0, "owned_by": "offbook"}


def _anthropic_model(name: str) -> JsonObject:
    unknown = ("line", "deprecated_at", "retires_at", "capabilities", "max_input_tokens", "max_tokens")
    model = {"type": "model", "id": name, "display_name": name, "created_at": LONG_AGO, "lifecycle": "active"}
    return model | dict.fromkeys(unknown)


def _anthropic_list(models: list[JsonObject]) -> JsonObject:
    ids = [model["id"] for model in models] or [None]
    return {"data": models, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


def _google_model(name: str) -> JsonObject:
    return {
        "name": f"{_GOOGLE_PREFIX}{name}",
        "version": "001",
        "displayName": name,
        "description": "",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens", "embedContent"],
    }


_MODELS: dict[str, tuple[Callable[[str], JsonObject], Callable[[list[JsonObject]], JsonObject]]] = {
    "openai": (_openai_model, lambda models: {"object": "list", "data": models}),
    "anthropic": (_anthropic_model, _anthropic_list),
    "google": (_google_model, lambda models: {"models": models}),
}


TOKENS_PER_MESSAGE = 4
"""The tokens of a message besides its text: its role, and its delimiters."""

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


def token_count_answer(vendor: str, body: JsonObject) -> JsonObject:
    """Answer the vendor's endpoint that counts the tokens of a request.

    Raises:
        RequestError: the body is not a request of this vendor, or the vendor has no such endpoint.
    """
    count = _COUNTS.get(vendor)
    if count is None:
        raise RequestError(f"{vendor} has no endpoint that counts tokens", source="vendor", place=vendor)
    return count(body)


def _anthropic_count(body: JsonObject) -> JsonObject:
    parsed = read_body(body, _Messages)
    return {"input_tokens": _count(parsed.messages, parsed.system, parsed.tools)}


def _google_count(body: JsonObject) -> JsonObject:
    wrapped = read_body(body, _WrappedContents).generate_content_request
    if wrapped is None:
        parsed = read_body(body, _Contents)
    else:
        parsed = read_body(wrapped, _Contents, place="generateContentRequest")
    count = _count(parsed.contents, parsed.system_instruction, parsed.tools)
    return {"totalTokens": count, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]}


def _openai_count(body: JsonObject) -> JsonObject:
    parsed = read_body(body, _Input)
    items = [parsed.input] if isinstance(parsed.input, str) else parsed.input or []
    return {"object": "response.input_tokens", "input_tokens": _count(items, parsed.instructions, parsed.tools)}


_COUNTS: dict[str, Callable[[JsonObject], JsonObject]] = {
    "anthropic": _anthropic_count,
    "google": _google_count,
    "openai": _openai_count,
}


def _count(messages: Sequence[object], *others: object) -> int:
    return TOKENS_PER_MESSAGE * len(messages) + estimate_tokens(_chars([*messages, *others]))


def _chars(values: Iterable[object]) -> int:
    """Count the characters of all text in the values; a medium counts as many as its tokens would have."""
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
    return (isinstance(kind, str) and kind in _MEDIA) or any(isinstance(part.get(name), str) for name in _MEDIA_TYPES)
