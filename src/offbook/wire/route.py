"""From a path to what is asked there: which vendor's API it is, which operation, which protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from offbook.codecs.catalog import CODECS
from offbook.codecs.codec import Codec
from offbook.recording.wire_record import PLAIN_HTTP

Vendor = Literal["openai", "anthropic", "google", "ollama"]
Operation = Literal["generate", "count_tokens", "embed", "models", "other"]


class Route(Struct, frozen=True):
    """What stands at a path. A `generate` has the codec of its protocol; `vendor_codec` writes the vendor's errors."""

    vendor: Vendor
    operation: Operation
    vendor_codec: Codec
    codec: Codec | None = None

    @property
    def protocol(self) -> str:
        return PLAIN_HTTP if self.codec is None else self.codec.name


def _generate(vendor: Vendor, codec: str) -> Route:
    return Route(vendor, "generate", CODECS[codec], CODECS[codec])


def _side(vendor: Vendor, operation: Operation) -> Route:
    return Route(vendor, operation, CODECS[_ERRORS_OF[vendor]])


_ERRORS_OF: dict[Vendor, str] = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "google": "gemini",
    "ollama": "ollama",
}
_POSTED = (
    (re.compile(r".*/chat/completions"), _generate("openai", "openai_chat")),
    (re.compile(r".*/responses"), _generate("openai", "openai_responses")),
    (re.compile(r"(.*/v1)?/messages"), _generate("anthropic", "anthropic")),
    (re.compile(r".*:(streamG|g)enerateContent"), _generate("google", "gemini")),
    (re.compile(r"/api/chat"), _generate("ollama", "ollama")),
    (re.compile(r"/api/embed(dings)?"), _side("ollama", "embed")),
    (re.compile(r"/api/show"), _side("ollama", "models")),
    (re.compile(r".*:(batchE|e)mbedContents?"), _side("google", "embed")),
    (re.compile(r".*:countTokens"), _side("google", "count_tokens")),
    (re.compile(r"(.*/v1)?/messages/count_tokens"), _side("anthropic", "count_tokens")),
    (re.compile(r".*/responses/input_tokens"), _side("openai", "count_tokens")),
    (re.compile(r".*/embeddings"), _side("openai", "embed")),
)
_MODELS = re.compile(r"(.*/)?models(/.+)?|/api/(tags|ps|version)")
_GOOGLE = re.compile(r"/(v1alpha|v1beta|upload/v1beta)/")
_OLLAMA = re.compile(r"/api/(?!v\d)")


def route_of(method: str, path: str, headers: Mapping[str, str]) -> Route:
    """What `method` asks at `path`."""
    if method == "POST":
        for pattern, route in _POSTED:
            if pattern.fullmatch(path):
                return route
    operation: Operation = "models" if method == "GET" and _MODELS.fullmatch(path) else "other"
    return _side(_vendor_at(path, headers), operation)


def _vendor_at(path: str, headers: Mapping[str, str]) -> Vendor:
    """Whose API the path belongs to, where the path alone does not tell."""
    if "anthropic-version" in headers or "anthropic-beta" in headers:
        return "anthropic"
    if _GOOGLE.match(path) or "x-goog-api-key" in headers or "x-goog-api-client" in headers:
        return "google"
    return "ollama" if _OLLAMA.match(path) else "openai"
