"""The vendors: for each an HTTP provider with its codec and base URL, and the responses of its SDK as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import orjson
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.codecs.base import WireRequest
from offbook.errors import InputError
from offbook.messages import JsonObject, Response
from offbook.providers.aws_signature import sign_request
from offbook.providers.http import HttpOptions, HttpProvider
from offbook.providers.pricing import PriceTable
from offbook.vendors import CODEC_NAMES, VENDOR_OF, ProviderName, codec_of

if TYPE_CHECKING:
    import httpx2


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


class BedrockProvider(CatalogProvider):
    """Amazon Bedrock's Converse. Without a key of Bedrock, requests are signed by botocore with AWS's credentials."""

    vendor_name: ProviderName = "bedrock"

    def encode(self, wire: WireRequest) -> httpx2.Request:
        request = super().encode(wire)
        if "authorization" not in request.headers:
            service = VENDOR_OF[self.vendor_name].signed_as
            headers = dict(request.headers.items())
            signed = sign_request(str(request.url), request.content, service=service, headers=headers)
            request.headers.update(signed)
        return request


class BedrockAnthropicProvider(BedrockProvider):
    """Anthropic's models by Amazon Bedrock's InvokeModel, signed like those of Converse."""

    vendor_name = "bedrock_anthropic"


PROVIDERS: dict[str, type[CatalogProvider]] = {
    kind.vendor_name: kind
    for kind in (
        OpenAIProvider,
        OpenAIResponsesProvider,
        AnthropicProvider,
        GoogleProvider,
        OllamaProvider,
        BedrockProvider,
        BedrockAnthropicProvider,
    )
}


@runtime_checkable
class SdkObject(Protocol):
    """A response object of a vendor's SDK: a pydantic model."""

    def model_dump_json(self, *, by_alias: bool, exclude_none: bool) -> str: ...


SdkAnswer: TypeAlias = SdkObject | JsonObject | str | bytes


def read_response(answer: SdkAnswer, vendor: str = "openai", *, prices: PriceTable | None = None) -> Response:
    """Convert a complete response of a vendor's SDK to a Response.

    Args:
        answer: the object that the SDK returned, or its JSON.
        vendor: `openai`, `anthropic`, `google`, `ollama`, `openai_responses`, `bedrock` or `bedrock_anthropic`.
        prices: the prices of tokens; by default, the newest that are known, whatever the day.

    Raises:
        InputError: the vendor is unknown, or `answer` has another type.
        MalformedResponseError: the answer is not in the vendor's format.
    """
    if vendor not in CODEC_NAMES:
        raise InputError(f"unknown vendor {vendor!r}", source="vendor", hint=f"one of: {', '.join(CODEC_NAMES)}")
    response = codec_of(CODEC_NAMES[vendor]).decode_response(_to_json(answer))
    cost_usd = (prices or PriceTable.default()).cost_usd(vendor, response.model, response.usage)
    return replace(response, provider=vendor, cost_usd=cost_usd)


def _to_json(answer: SdkAnswer) -> bytes:
    if isinstance(answer, SdkObject):
        return answer.model_dump_json(by_alias=True, exclude_none=True).encode()
    if isinstance(answer, Mapping):
        return orjson.dumps(answer)
    if isinstance(answer, str | bytes):
        return answer.encode() if isinstance(answer, str) else answer
    raise InputError(
        f"expected a response of a vendor's SDK or its JSON, got {type(answer).__name__}",
        source="answer",
        hint="collect a stream first",
    )
