"""Ollama: embeddings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from offbook.messages import JsonObject
from offbook.wire.side.body import read_body
from offbook.wire.side.embeddable import MAX_INPUTS, Dimensions, Embeddable, Text

DEFAULT_DIMENSIONS = 768


class _Body(Struct):
    model: str
    input: Text | Annotated[list[Text], Meta(min_length=1, max_length=MAX_INPUTS)]
    dimensions: Dimensions | None = None


class _Prompt(Struct):
    prompt: Text


def ollama_embeddings(body: JsonObject) -> JsonObject:
    """The answer of `/api/embed`. Durations are in nanoseconds."""
    asked = read_body(body, _Body)
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    inputs = [Embeddable.of_text(text) for text in texts]
    dimensions = asked.dimensions or DEFAULT_DIMENSIONS
    return {
        "model": asked.model,
        "embeddings": [each.vector(dimensions) for each in inputs],
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": sum(each.tokens for each in inputs),
    }


def ollama_embedding(body: JsonObject) -> JsonObject:
    """The answer of `/api/embeddings`, which is older and takes one text."""
    prompt = read_body(body, _Prompt).prompt
    return {"embedding": Embeddable.of_text(prompt).vector(DEFAULT_DIMENSIONS)}
