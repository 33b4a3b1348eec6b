"""OpenAI: embeddings."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Literal

from msgspec import Meta, Struct

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.side.body import read_body
from offbook.wire.side.embeddable import MAX_INPUTS, Dimensions, Embeddable, Text
from offbook.wire.side.vectors import packed

_DEFAULT_DIMENSIONS = 1536
_DIMENSIONS = {"text-embedding-3-large": 3072}

_TokenId = Annotated[int, Meta(ge=0)]
_Item = Text | _TokenId | Annotated[list[_TokenId], Meta(min_length=1)]


class _Body(Struct):
    model: str
    input: Text | Annotated[list[_Item], Meta(min_length=1)]
    dimensions: Dimensions | None = None
    encoding_format: Literal["float", "base64"] | None = None


def openai_embeddings(body: JsonObject) -> JsonObject:
    """The answer of `/v1/embeddings`."""
    asked = read_body(body, _Body)
    inputs = _inputs(asked.input)
    dimensions = asked.dimensions or _DIMENSIONS.get(asked.model, _DEFAULT_DIMENSIONS)
    is_packed = asked.encoding_format == "base64"
    tokens = sum(each.tokens for each in inputs)
    return {
        "object": "list",
        "data": [_datum(index, each.vector(dimensions), is_packed) for index, each in enumerate(inputs)],
        "model": asked.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _inputs(given: str | list[str | int | list[int]]) -> list[Embeddable]:
    """A text, texts, a text as token ids, or texts as token ids: one kind at a time."""
    if isinstance(given, str):
        return [Embeddable.of_text(given)]
    texts = [item for item in given if isinstance(item, str)]
    ids = [item for item in given if isinstance(item, int)]
    lists = [item for item in given if isinstance(item, list)]
    if len(given) not in (len(texts), len(ids), len(lists)):
        raise RequestError("texts and token ids are mixed", source="request body", place="input")
    if len(texts or lists) > MAX_INPUTS:
        raise RequestError(f"more than {MAX_INPUTS:,} inputs", source="request body", place="input")
    if ids:
        return [Embeddable.of_token_ids(ids)]
    return [*map(Embeddable.of_text, texts), *map(Embeddable.of_token_ids, lists)]


def _datum(index: int, vector: list[float], is_packed: bool) -> JsonObject:
    embedding = b64encode(packed(vector)).decode() if is_packed else vector
    return {"object": "embedding", "index": index, "embedding": embedding}
