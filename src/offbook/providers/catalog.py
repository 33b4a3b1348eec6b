"""The providers of the vendors, each an HTTP provider with its codec and base URL."""

from __future__ import annotations

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.codecs.anthropic import AnthropicCodec
from offbook.codecs.base import Codec
from offbook.codecs.gemini import GeminiCodec
from offbook.codecs.ollama import OllamaCodec
from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.codecs.openai_responses import OpenAIResponsesCodec
from offbook.providers.http import HttpOptions, HttpProvider
from offbook.providers.pricing import PriceTable


class CatalogProvider(HttpProvider):
    """An HTTP provider that knows its codec, its vendor's address and its name."""

    vendor_codec: Codec
    vendor_url: str
    vendor_name: str

    def __init__(
        self,
        *,
        api_key: str = "",
        base_url: str = "",
        name: str = "",
        prices: PriceTable | None = None,
        http: HttpOptions | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            self.vendor_codec,
            base_url=base_url or self.vendor_url,
            api_key=api_key,
            name=name or self.vendor_name,
            prices=prices,
            http=http,
            clock=clock,
        )


class OpenAIProvider(CatalogProvider):
    """OpenAI chat completions, and by `base_url` every compatible server (vLLM, llama.cpp, LM Studio, Azure…)."""

    vendor_codec = OpenAIChatCodec()
    vendor_url = "https://api.openai.com/v1"
    vendor_name = "openai"


class OpenAIResponsesProvider(CatalogProvider):
    """OpenAI responses, and by `base_url` every server that speaks them."""

    vendor_codec = OpenAIResponsesCodec()
    vendor_url = "https://api.openai.com/v1"
    vendor_name = "openai_responses"


class AnthropicProvider(CatalogProvider):
    """Anthropic messages."""

    vendor_codec = AnthropicCodec()
    vendor_url = "https://api.anthropic.com"
    vendor_name = "anthropic"


class GoogleProvider(CatalogProvider):
    """Gemini's generateContent."""

    vendor_codec = GeminiCodec()
    vendor_url = "https://generativelanguage.googleapis.com/v1beta"
    vendor_name = "google"


class OllamaProvider(CatalogProvider):
    """Ollama's chat."""

    vendor_codec = OllamaCodec()
    vendor_url = "http://127.0.0.1:11434"
    vendor_name = "ollama"
