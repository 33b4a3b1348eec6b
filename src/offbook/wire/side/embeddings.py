"""Embeddings: a vector for each text, drawn from the text alone, in the shapes of the vendors."""

from __future__ import annotations

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.route import Vendor
from offbook.wire.side.google_embeddings import google_embedding, google_embeddings
from offbook.wire.side.ollama_embeddings import ollama_embedding, ollama_embeddings
from offbook.wire.side.openai_embeddings import openai_embeddings


def embeddings_answer(vendor: Vendor, path: str, body: JsonObject) -> JsonObject:
    """The answer of the vendor's endpoint for embeddings at `path`.

    A text has the same vector wherever it is asked for, as far as the number of dimensions is the same.

    Raises:
        RequestError: the body is no request for embeddings, or the vendor makes none at this path.
    """
    match vendor, path.rpartition("/")[2].rpartition(":")[2]:
        case "openai", "embeddings":
            return openai_embeddings(body)
        case "google", "embedContent":
            return google_embedding(path, body)
        case "google", "batchEmbedContents":
            return google_embeddings(path, body)
        case "ollama", "embed":
            return ollama_embeddings(body)
        case "ollama", "embeddings":
            return ollama_embedding(body)
    raise RequestError(f"{vendor} makes no embeddings here", source="path", place=path)
