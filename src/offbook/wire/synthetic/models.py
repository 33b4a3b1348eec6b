"""Lists of models, and single models, in the formats of OpenAI, Anthropic, Gemini and Ollama."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from urllib.parse import unquote

from msgspec import Struct

from offbook.codecs.ollama.response import CREATED_AT
from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.request import Vendor, read_body
from offbook.wire.synthetic.embeddings import OLLAMA_DIMENSIONS

OLLAMA_VERSION = "0.12.0"
CONTEXT_LENGTH = 131_072
"""The tokens that a model is said to hold."""

_ARCHITECTURE = "offbook"
_FAR_FUTURE = "2200-01-01T00:00:00Z"
_TEMPLATE = "{{ .System }}{{ .Tools }}{{ .Prompt }}"


class _ShowBody(Struct):
    model: str = ""
    name: str = ""


def ollama_models_answer(path: str, names: Sequence[str], body: JsonObject) -> JsonObject | None:
    """The answer at `path`; None if the body asks for a model that is not in `names`, or there is no such path.

    A name without a tag is that of the tag `latest`.
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
    asked = read_body(body, _ShowBody)
    name = asked.model or asked.name
    if not name:
        raise RequestError("it names no model", source="request body", place="model")
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
_LONG_AGO = "1970-01-01T00:00:00Z"
_GOOGLE_PREFIX = "models/"


def models_answer(
    vendor: Vendor, path: str, names: Sequence[str], *, body: JsonObject | None = None
) -> JsonObject | None:
    """The answer of the vendor's endpoint for models at `path`; None if the model that is asked for is not in `names`.

    A list is one page: the names in their order, each once. Ollama's `/api/show` names its model in the `body`.

    Raises:
        RequestError: the body names no model where it must.
    """
    known = list(dict.fromkeys(names))
    return ollama_models_answer(path, known, body or {}) if vendor == "ollama" else _ANSWERS[vendor](path, known)


def _openai(path: str, names: Iterable[str]) -> JsonObject | None:
    return _list_or_one(path, {name: _openai_model(name) for name in names}, _openai_list)


def _openai_model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": 0, "owned_by": "offbook"}


def _openai_list(models: list[JsonObject]) -> JsonObject:
    return {"object": "list", "data": models}


def _anthropic(path: str, names: Iterable[str]) -> JsonObject | None:
    return _list_or_one(path, {name: _anthropic_model(name) for name in names}, _anthropic_list)


def _anthropic_model(name: str) -> JsonObject:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _LONG_AGO,
        "lifecycle": "active",
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
        "capabilities": None,
        "max_input_tokens": None,
        "max_tokens": None,
    }


def _anthropic_list(models: list[JsonObject]) -> JsonObject:
    ids = [model["id"] for model in models] or [None]
    return {"data": models, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


def _google(path: str, names: Iterable[str]) -> JsonObject | None:
    bare = [name.removeprefix(_GOOGLE_PREFIX) for name in names]
    return _list_or_one(path, {name: _google_model(name) for name in bare}, _google_list)


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


def _google_list(models: list[JsonObject]) -> JsonObject:
    return {"models": models}


def _list_or_one(
    path: str, models: dict[str, JsonObject], listed: Callable[[list[JsonObject]], JsonObject]
) -> JsonObject | None:
    """The model that the path names, or the list of all if it names none."""
    asked = _MODELS_PATH.fullmatch(path)
    if asked is None:
        return None
    return models.get(unquote(asked["name"])) if asked["name"] else listed(list(models.values()))


_ANSWERS: dict[Vendor, Callable[[str, Iterable[str]], JsonObject | None]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
}
