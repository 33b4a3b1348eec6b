"""Ollama: which models there are, which are loaded, what one is like, and the version that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from offbook.codecs.ollama.response import CREATED_AT
from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.side.body import read_body
from offbook.wire.side.ollama_embeddings import DEFAULT_DIMENSIONS

VERSION = "0.12.0"
CONTEXT_LENGTH = 131_072
"""The tokens that a model is said to hold."""

_ARCHITECTURE = "offbook"
_NOT_SOON = "2200-01-01T00:00:00Z"
_TEMPLATE = "{{ .System }}{{ .Tools }}{{ .Prompt }}"


class _Shown(Struct):
    model: str = ""
    name: str = ""


def ollama_answer(path: str, names: Sequence[str], body: JsonObject) -> JsonObject | None:
    """The answer at `path`; None if the body asks for a model that is not in `names`, or there is no such path.

    A name without a tag is that of the tag `latest`.
    """
    tagged = list(dict.fromkeys(map(_tagged, names)))
    match path:
        case "/api/version":
            return {"version": VERSION}
        case "/api/tags":
            return {"models": [_listed(name) | {"modified_at": CREATED_AT} for name in tagged]}
        case "/api/ps":
            return {"models": [_listed(name) | _loaded() for name in tagged]}
        case "/api/show":
            return _shown(body, tagged)
    return None


def _tagged(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _listed(name: str) -> JsonObject:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return {"name": name, "model": name, "size": 0, "digest": digest, "details": _details()}


def _loaded() -> JsonObject:
    return {"expires_at": _NOT_SOON, "size_vram": 0, "context_length": CONTEXT_LENGTH}


def _details() -> JsonObject:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": _ARCHITECTURE,
        "families": [_ARCHITECTURE],
        "parameter_size": "1B",
        "quantization_level": "F16",
    }


def _shown(body: JsonObject, names: Sequence[str]) -> JsonObject | None:
    asked = read_body(body, _Shown)
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
            f"{_ARCHITECTURE}.embedding_length": DEFAULT_DIMENSIONS,
        },
        "capabilities": ["completion", "tools"],
        "modified_at": CREATED_AT,
    }
