"""The HTTP provider: any codec at any base URL, with translated errors, and one provider for each vendor."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.codecs.base import Codec, WireRequest, error_of_status
from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RequestError,
)
from offbook.messages import JsonObject, Reply, Request, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply
from offbook.providers.aws_signature import sign_request
from offbook.providers.pricing import PriceTable
from offbook.providers.provider import Provider
from offbook.vendors import CODEC_NAMES, SECRET_QUERY, VENDOR_OF, ProviderName, codec_of, is_credential_name

if TYPE_CHECKING:
    import httpx2


@contextmanager
def translate_errors(provider: str) -> Iterator[None]:
    """Translate errors of httpx2 and the codecs to offbook's, with the provider's name."""
    import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

    try:
        yield
    except ProviderError as error:
        error.attribute(provider)
        raise
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, httpx2.CookieConflict) as error:
        raise translate_error(error, provider) from error


def translate_error(error: Exception, provider: str) -> ProviderError | InputError:
    """Return offbook's error for one of httpx2's."""
    import httpx2  # noqa: PLC0415

    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            kind = ProviderTimeoutError if isinstance(error, httpx2.ConnectTimeout) else ProviderConnectionError
            return kind(f"no connection{_server_of(error)} ({reason})", provider=provider)
        case httpx2.TimeoutException():
            return ProviderTimeoutError(f"no response in time ({reason})", provider=provider)
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return InputError(reason, source=f"{provider}: base_url")
        case httpx2.DecodingError() | httpx2.TooManyRedirects() | httpx2.SSEError():
            return MalformedResponseError(reason, provider=provider)
        case httpx2.TransportError() | httpx2.StreamError():
            return ProviderConnectionError(reason, provider=provider)
        case _:
            return ProviderError(reason, provider=provider)


def _server_of(error: httpx2.RequestError) -> str:
    """Return the server of the request, without parts of the URL that may be secret."""
    try:
        url = error.request.url
    except (AttributeError, RuntimeError):  # an error without a request
        return ""
    return f" to {url.scheme}://{url.netloc.decode()}"


def tls_verification(address: str) -> ssl.SSLContext | bool:
    """Return what an httpx2 client verifies: nothing without TLS, because loading certificates is slow."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if address.startswith("http://") else True


MAX_RESPONSE_BYTES = 64 * 1024 * 1024


class HttpOptions(Struct, frozen=True, kw_only=True):
    """Options of the HTTP client.

    `timeout_s` is the longest wait for a connection and between two pieces of a response. `headers` and `query` are
    sent with every request. `transport` replaces the network.
    """

    timeout_s: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    transport: httpx2.AsyncBaseTransport | None = None


class HttpProvider(Provider):
    """Sends requests in the protocol of `codec` to the server at `base_url`, which contains the protocol's paths.

    `api_key` is sent as the protocol defines, or not at all if empty. `name` is the provider's name in responses and
    recordings; `prices` are its token prices.

    Raises:
        InputError: `base_url` is not the URL of a server, or the key or a header cannot be sent.
    """

    def __init__(
        self,
        codec: Codec,
        *,
        base_url: str,
        api_key: str = "",
        name: str = "",
        prices: PriceTable | None = None,
        http: HttpOptions | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.codec, self.base_url, self.name = codec, _checked_url(base_url), name or codec.name
        self._http = http or HttpOptions()
        headers = {"Content-Type": "application/json"} | codec.auth_headers(api_key) | dict(self._http.headers)
        self._headers = _checked_headers(headers)
        self.credentials = _credentials(api_key, self._http)
        self._prices, self._clock = prices or PriceTable.default(), clock
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}

    async def send(self, request: Request) -> Reply:
        started_s = self._clock.monotonic_s()
        wire = self.codec.encode_request(request)
        with translate_errors(self.name):
            answer = await self._client().send(self.encode(wire), stream=True)
        if answer.status_code != 200:
            await self._refuse(answer)
        if request.stream:
            return StreamedReply(self._events(answer, request, started_s), source=answer)
        data = await self._read(answer)
        with translate_errors(self.name):
            response = self.codec.decode_response(data)
        return WholeReply(self._complete(response, request, started_s))

    def check_price(self, request: Request) -> None:
        self._prices.require(request.model, provider=self.name)

    async def close(self) -> None:
        """Close the running loop's connections. Other loops keep theirs."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> httpx2.AsyncClient:
        """Return the client of the running loop: connections cannot move from one event loop to another."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

            client = httpx2.AsyncClient(
                verify=tls_verification(self.base_url), timeout=self._http.timeout_s, transport=self._http.transport
            )
            for closed in [known for known in list(self._clients) if known.is_closed()]:
                self._clients.pop(closed, None)
            self._clients[loop] = client
        return client

    def encode(self, wire: WireRequest) -> httpx2.Request:
        """Return the HTTP request to send."""
        try:
            content = orjson.dumps(wire.body)
        except TypeError as error:
            raise RequestError(f"the request cannot be written as JSON: {error}") from None
        request = self._client().build_request(
            "POST", self.base_url + wire.path, content=content, headers=self._headers
        )
        if self._http.query:
            request.url = request.url.copy_merge_params(self._http.query)
        return request

    async def _refuse(self, answer: httpx2.Response) -> None:
        body = await self._read(answer)
        with translate_errors(self.name):
            raise error_of_status(
                answer.status_code,
                headers=answer.headers,
                body=body.decode("utf-8", "replace"),
                message=self.codec.decode_error(body),
                now=self._clock.utc_now(),
            )

    async def _read(self, answer: httpx2.Response) -> bytes:
        data = bytearray()
        with translate_errors(self.name):
            try:
                async for piece in answer.aiter_bytes():
                    data += piece
                    self._limit(len(data))
            finally:
                await answer.aclose()
        return bytes(data)

    async def _events(self, answer: httpx2.Response, request: Request, started_s: float) -> AsyncIterator[StreamEvent]:
        decoder, received = self.codec.stream_decoder(), 0
        try:
            with translate_errors(self.name):
                async for piece in answer.aiter_bytes():
                    received += len(piece)
                    self._limit(received)
                    for delta in decoder.feed(piece):
                        yield delta
                deltas, response = decoder.close()
                for delta in deltas:
                    yield delta
                yield StreamEnd(self._complete(response, request, started_s))
        finally:
            await answer.aclose()

    def _limit(self, received: int) -> None:
        if received > MAX_RESPONSE_BYTES:
            raise MalformedResponseError(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")

    def _complete(self, response: Response, request: Request, started_s: float) -> Response:
        model = response.model or request.model
        return replace(
            response,
            model=model,
            provider=self.name,
            cost_usd=self._prices.cost_usd(self.name, model, response.usage, at=self._clock.utc_now()),
            latency_ms=(self._clock.monotonic_s() - started_s) * 1000.0,
        )


def _checked_url(base_url: str) -> str:
    """Return `base_url` without its last slash, as a path follows."""
    try:
        parts = urlsplit(base_url)
        names_a_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        names_a_server = False
    if not names_a_server or base_url.split() != [base_url]:
        raise InputError(f"expected a URL like http://127.0.0.1:8000/v1, got {base_url!r}", source="base_url")
    if "?" in base_url or "#" in base_url:
        raise InputError(
            f"expected a URL without query and fragment, got {base_url!r}",
            source="base_url",
            hint='http=HttpOptions(query={"name": "value"})',
        )
    return base_url.rstrip("/")


def _credentials(api_key: str, http: HttpOptions) -> tuple[str, ...]:
    """Return the key, and the secrets in headers and the query. A scheme before one, like `Bearer`, may be left out."""
    values = [value for name, value in http.headers.items() if is_credential_name(name.lower())]
    values += [
        value for name, value in http.query.items() if name.lower() in SECRET_QUERY or is_credential_name(name.lower())
    ]
    parts = [part for value in (api_key, *values) for part in (value, value.partition(" ")[2])]
    return tuple(dict.fromkeys(filter(None, parts)))


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return `headers` if HTTP can carry them. An error names only the header, as its value may be a secret."""
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable() or value != value.strip():
            raise InputError("expected printable ASCII without spaces around it", source=f"header {name}")
    return headers


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
    """Anthropic's models on Amazon Bedrock's InvokeModel, signed like Converse."""

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
