"""The providers of the vendors, each an HTTP provider with its codec and base URL."""

from __future__ import annotations

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.providers.http import HttpOptions, HttpProvider
from offbook.providers.pricing import PriceTable
from offbook.vendors import CODEC_NAMES, VENDOR_OF, ProviderName, codec_of


class CatalogProvider(HttpProvider):
    """An HTTP provider that takes its codec and its base URL from the table of vendors."""

    vendor_name: ProviderName

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
        vendor = VENDOR_OF[self.vendor_name]
        super().__init__(
            codec_of(CODEC_NAMES[self.vendor_name]),
            base_url=base_url or vendor.base_url + vendor.api_path,
            api_key=api_key,
            name=name or self.vendor_name,
            prices=prices,
            http=http,
            clock=clock,
        )


class OpenAIProvider(CatalogProvider):
    """OpenAI chat completions, and by `base_url` every compatible server (vLLM, llama.cpp, LM Studio, Azure…)."""

    vendor_name = "openai"


class OpenAIResponsesProvider(CatalogProvider):
    """OpenAI responses, and by `base_url` every compatible server."""

    vendor_name = "openai_responses"


class AnthropicProvider(CatalogProvider):
    """Anthropic messages."""

    vendor_name = "anthropic"


class GoogleProvider(CatalogProvider):
    """Gemini generateContent. `base_url` includes the version of the API, like `/v1beta`."""

    vendor_name = "google"


class OllamaProvider(CatalogProvider):
    """Ollama chat."""

    vendor_name = "ollama"


PROVIDERS: dict[str, type[CatalogProvider]] = {
    kind.vendor_name: kind
    for kind in (OpenAIProvider, OpenAIResponsesProvider, AnthropicProvider, GoogleProvider, OllamaProvider)
}
