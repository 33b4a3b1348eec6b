"""Which models there are, in the shapes of the vendors: all of them, or one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote

from offbook.messages import JsonObject
from offbook.wire.route import Vendor
from offbook.wire.side.ollama_models import ollama_answer

_PATH = re.compile(r".*?/models(?:/(?P<name>.*))?")
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
    return ollama_answer(path, known, body or {}) if vendor == "ollama" else _ANSWERS[vendor](path, known)


def _openai(path: str, names: Iterable[str]) -> JsonObject | None:
    return _answer(path, {name: _openai_model(name) for name in names}, _openai_list)


def _openai_model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": 0, "owned_by": "offbook"}


def _openai_list(models: list[JsonObject]) -> JsonObject:
    return {"object": "list", "data": models}


def _anthropic(path: str, names: Iterable[str]) -> JsonObject | None:
    return _answer(path, {name: _anthropic_model(name) for name in names}, _anthropic_list)


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
    return _answer(path, {name: _google_model(name) for name in bare}, _google_list)


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


def _answer(
    path: str, models: dict[str, JsonObject], listed: Callable[[list[JsonObject]], JsonObject]
) -> JsonObject | None:
    """The model that the path names, or the list of all if it names none."""
    asked = _PATH.fullmatch(path)
    if asked is None:
        return None
    return models.get(unquote(asked["name"])) if asked["name"] else listed(list(models.values()))


_ANSWERS: dict[Vendor, Callable[[str, Iterable[str]], JsonObject | None]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
}
