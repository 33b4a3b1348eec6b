"""Repeats recorded requests at the real APIs, and compares the answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.framing import PackedBodyError
from offbook.errors import InputError, RequestError
from offbook.messages import JsonObject, Usage
from offbook.providers.pricing import PriceTable
from offbook.recording.drift import Difference, differences_between, embeddings_of
from offbook.recording.format.document import Document, rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import WEBSOCKET
from offbook.recording.match.fingerprint import NormaliseRules, canonical_bytes, normalise_fields
from offbook.recording.redact.redactor import Redactor
from offbook.text import estimate_tokens
from offbook.vendors import VENDORS
from offbook.wire.convert.trace import in_order, recorded_request
from offbook.wire.proxy.forwarding import (
    decompressed,
    decompressor_for,
    describe_error,
    describe_failure,
    ending_of,
)
from offbook.wire.proxy.recorder import (
    CapturedResponse,
    ResponseCapture,
    build_exchange,
    provider_name_of,
)
from offbook.wire.proxy.upstream import (
    UpstreamRequest,
    Upstreams,
    client_response_headers,
    encode_upstream_request,
    upstream_client,
)
from offbook.wire.recordings import describe_exchange
from offbook.wire.request import HttpRequest, ParsedRequest, credentials_of, header_dict, parse_request, route_of

if TYPE_CHECKING:
    import httpx2

ANSWER_TIMEOUT_S = 600.0
"""The longest silence of an API in seconds, as in most SDKs."""
_PATH_CHARS = "/:@!$&'()*+,;=~-._%"
_MARK = b"<redacted"
_EMBEDDING_PATH = re.compile(r"/models/([^/:?]+):")
_FAILED_STATUS = 400


class RecordedCall(Struct, frozen=True):
    """A recorded call that can be repeated. `number` is that of `call=`, or 0 if it is not a model call.

    `usage` is the recorded usage, or an estimate; `cost_usd` is its present cost.
    """

    number: int
    about: str
    exchange: Exchange
    request: HttpRequest
    parsed: ParsedRequest
    usage: Usage
    cost_usd: float

    @property
    def model(self) -> str:
        """The model that answered, or else the requested one."""
        return self.exchange.model or self.parsed.model


class LeftOut(Struct, frozen=True):
    """A recorded exchange that is not repeated, and the reason."""

    number: int
    about: str
    reason: str


class VerificationPlan(Struct, frozen=True):
    """The calls that a verification makes, in the order of the recording, and the exchanges that it leaves out."""

    calls: list[RecordedCall]
    left_out: list[LeftOut]

    @property
    def tokens(self) -> int:
        return sum(call.usage.total_tokens for call in self.calls)

    @property
    def cost_usd(self) -> float:
        return sum(call.cost_usd for call in self.calls)

    @property
    def vendors(self) -> list[str]:
        return sorted({call.parsed.route.vendor for call in self.calls})

    @property
    def models(self) -> list[tuple[str, str]]:
        """The provider and the name of each requested model."""
        asked = [call for call in self.calls if _is_billed(call.parsed)]
        return sorted({(provider_name_of(call.parsed), call.model) for call in asked})


def plan_verification(document: Document, *, prices: PriceTable, only: Sequence[int] = ()) -> VerificationPlan:
    """Return the repeatable calls of a recording; `only` selects some by number.

    Left out are recorded failures, requests changed by redaction, requests that may change something, and WebSocket
    sessions.
    """
    rules = rules_from_meta(document.meta, source="the recording")
    plan = VerificationPlan([], [])
    for number, exchange in _numbered(in_order(document)):
        if only and number not in only:
            continue
        about = describe_exchange(exchange)
        try:
            plan.calls.append(_recorded_call(number, about, exchange, rules, prices))
        except RequestError as error:
            plan.left_out.append(LeftOut(number, about, error.reason))
    return plan


def _numbered(exchanges: Iterable[tuple[str, Exchange]]) -> Iterable[tuple[int, Exchange]]:
    """Number model calls as fault plans do: a request repeated after a failure is the same call."""
    calls, failed = 0, dict[str | None, int]()
    for _, exchange in exchanges:
        if exchange.http_fields() is not None:
            yield 0, exchange
            continue
        number = failed.pop(exchange.fingerprint, 0)
        calls += not number
        if exchange.fault is not None:
            failed[exchange.fingerprint] = number or calls
        yield number or calls, exchange


def _recorded_call(
    number: int, about: str, exchange: Exchange, rules: NormaliseRules, prices: PriceTable
) -> RecordedCall:
    """Return the call that was recorded. Raises RequestError if it cannot be made again."""
    if reason := _unaskable_reason(exchange, rules):
        raise RequestError(reason)
    request = recorded_request(exchange)[1]
    parsed = parse_request(request)
    exchange = _with_embedding_usage(exchange, parsed, prices)
    usage = _usage(exchange) if _is_billed(parsed) else Usage()
    cost_usd = prices.cost_usd(provider_name_of(parsed), exchange.model or parsed.model, usage)
    return RecordedCall(
        number=number,
        about=about,
        exchange=exchange,
        request=request,
        parsed=parsed,
        usage=usage,
        cost_usd=cost_usd,
    )


def _is_billed(parsed: ParsedRequest) -> bool:
    return parsed.request is not None or parsed.route.operation == "embed"


def _with_embedding_usage(exchange: Exchange, parsed: ParsedRequest, prices: PriceTable) -> Exchange:
    """Return an embeddings answer with its model, its tokens and their present cost; any other answer unchanged."""
    if parsed.route.operation != "embed" or exchange.wire is None:
        return exchange
    found = embeddings_of(exchange.wire.content())
    if found is None:
        return exchange
    in_path = _EMBEDDING_PATH.search(parsed.place)
    model = found.model or parsed.model.removeprefix("models/") or (in_path[1] if in_path else "")
    usage = Usage.of(found.tokens, 0) if found.tokens else None
    cost_usd = prices.cost_usd(provider_name_of(parsed), model, usage or Usage())
    return replace(exchange, model=model, usage=usage, cost_usd=cost_usd)


def _unaskable_reason(exchange: Exchange, rules: NormaliseRules) -> str:
    http, fields = exchange.http_fields(), exchange.request_fields()
    if exchange.when is not None or (http is None and fields is None):
        return "it does not say which request it answers"
    if exchange.wire is not None and exchange.wire.protocol == WEBSOCKET:
        return "a WebSocket session is not asked again: what a server sends depends on when the client speaks"
    if exchange.fault is not None:
        return f"it was recorded as a failure ({exchange.fault.type})"
    if http is not None and http["method"] != "GET" and not _is_embedding(http):
        return "only model calls, embeddings and GET requests are asked again"
    sent = canonical_bytes(http or normalise_fields(fields or {}, rules))
    if exchange.request_hash in (None, sha256(sent).hexdigest()):
        return ""
    is_redacted = _MARK in bytes(exchange.request)
    return "secrets were removed from its request" if is_redacted else "its request is not the one that was sent"


def _is_embedding(http: JsonObject) -> bool:
    return route_of(str(http["method"]), str(http["path"]).partition("?")[0], {}).operation == "embed"


def _usage(exchange: Exchange) -> Usage:
    if exchange.usage is not None and exchange.usage.total_tokens:
        return exchange.usage
    answer_chars = len(exchange.content) + sum(len(str(call.arguments)) for call in exchange.tool_calls or ())
    return Usage.of(estimate_tokens(len(bytes(exchange.request))), estimate_tokens(answer_chars))


Outcome = Literal["identical", "reworded", "drifted", "failed", "not asked"]
"""`reworded` differs only in its text and its tokens; `failed` describes an API failure; `not asked` exceeds the
budget.
"""


class VerifiedCall(Struct, frozen=True):
    """The answer to a call this time."""

    number: int
    about: str
    outcome: Outcome
    differences: list[Difference] = field(default_factory=list)
    failure: str = ""
    usage: Usage = Usage()
    cost_usd: float = 0.0
    recorded_usage: Usage = Usage()
    recorded_cost_usd: float = 0.0


class Verification(Struct, frozen=True):
    """The present answers of the real APIs. Equal answers make equal values."""

    calls: list[VerifiedCall]
    left_out: list[LeftOut]

    def count(self, outcome: Outcome) -> int:
        return sum(call.outcome == outcome for call in self.calls)

    @property
    def is_same(self) -> bool:
        """Whether every call was answered, and no answer has drifted."""
        return all(call.outcome in ("identical", "reworded") for call in self.calls)

    @property
    def cost_usd(self) -> float:
        return sum(call.cost_usd for call in self.calls)

    @property
    def recorded_cost_usd(self) -> float:
        """The recorded cost of the calls that were answered."""
        return sum(call.recorded_cost_usd for call in self.calls if call.outcome not in ("failed", "not asked"))


class Verifier:
    """Repeats calls at `upstreams` one by one, and stops before it exceeds `budget_usd`.

    `headers` are sent with each request. The `redactor` removes secrets from answers.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        prices: PriceTable,
        redactor: Redactor,
        budget_usd: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._upstreams, self._prices, self._redactor = upstreams, prices, redactor
        self._budget_usd, self._headers = budget_usd, dict(headers or {})
        self._spent_usd = 0.0
        self._clients: dict[str, httpx2.AsyncClient] = {}

    def check(self, plan: VerificationPlan) -> None:
        """Check that the calls can be made, before any is made.

        Raises:
            InputError: an address or a key is missing, or a price that the budget needs.
        """
        for vendor in plan.vendors:
            self._upstreams.address(vendor)
            if not self._upstreams.has_key(vendor):
                variable = VENDORS[vendor].key_variables[0]
                raise InputError(f"the key of {vendor} is missing", source="verify", hint=f"export {variable}=…")
        if self._budget_usd is not None:
            for provider, model in plan.models:
                self._prices.require(model, provider=provider)

    async def run(self, plan: VerificationPlan) -> Verification:
        """Make the calls of a plan."""
        verification = Verification([], plan.left_out)
        try:
            for call in plan.calls:
                verification.calls.append(await self._verify(call))
        finally:
            for client in self._clients.values():
                await client.aclose()
            self._clients.clear()
        return verification

    async def _verify(self, call: RecordedCall) -> VerifiedCall:
        recorded = call.exchange
        before = VerifiedCall(
            number=call.number,
            about=call.about,
            outcome="not asked",
            recorded_usage=recorded.usage or Usage(),
            recorded_cost_usd=recorded.cost_usd,
        )
        if self._budget_usd is not None and self._spent_usd + call.cost_usd > self._budget_usd:
            return before
        try:
            live, failure = await self._ask(call)
        except InputError as error:
            return replace(before, outcome="failed", failure=str(error))
        self._spent_usd += live.cost_usd
        after = replace(before, usage=live.usage or Usage(), cost_usd=live.cost_usd)
        if failure:
            return replace(after, outcome="failed", failure=failure)
        differences = differences_between(recorded, live)
        return replace(after, outcome=_outcome(differences), differences=differences)

    async def _ask(self, call: RecordedCall) -> tuple[Exchange, str]:
        """Return the API's answer without secrets, and its failure, if any."""
        route = call.parsed.route
        headers = {**call.request.headers, **self._headers}
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        sent = UpstreamRequest(route, call.request, quote(call.request.path, safe=_PATH_CHARS), raw)
        request = await encode_upstream_request(self._upstreams, sent)
        address = self._upstreams.address(route.vendor)
        if address not in self._clients:
            self._clients[address] = upstream_client(self._upstreams, route.vendor, timeout_s=ANSWER_TIMEOUT_S)
        captured = await _captured(self._clients[address], request, call.parsed)
        exchange = build_exchange(call.parsed, captured, prices=self._prices)
        exchange = _with_embedding_usage(exchange, call.parsed, self._prices)
        failure = describe_failure(exchange, captured, self._upstreams.address(route.vendor)) or _refusal(
            call, exchange
        )
        credentials = credentials_of(replace(call.request, headers=dict(request.headers)))
        return self._redactor.knowing(credentials).redact(exchange), failure


async def _captured(client: httpx2.AsyncClient, request: httpx2.Request, parsed: ParsedRequest) -> CapturedResponse:
    """Send a request, and capture as much of the response as arrives."""
    import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

    capture = ResponseCapture(parsed, SYSTEM_CLOCK)
    try:
        response = await client.send(request, stream=True)
        try:
            decompressor = decompressor_for(response.headers.get("content-encoding", ""))
            headers = client_response_headers(response.headers.raw, is_decompressed=decompressor is not None)
            capture.start(response.status_code, header_dict(headers))
            async for piece in decompressed(response.aiter_raw(), decompressor):
                capture.feed(piece)
        finally:
            await response.aclose()
    except (httpx2.HTTPError, PackedBodyError) as error:
        return capture.end(ending_of(error), failure=describe_error(error))
    return capture.end("complete")


def _refusal(call: RecordedCall, live: Exchange) -> str:
    """Return the API's refusal of a request that is not a model call, or "" if it answered as before."""
    statuses = [exchange.wire.status for exchange in (call.exchange, live) if exchange.wire is not None]
    is_refused = call.parsed.request is None and statuses[-1] >= _FAILED_STATUS > statuses[0]
    return f"status {statuses[-1]}" if is_refused else ""


def _outcome(differences: list[Difference]) -> Outcome:
    if any(difference.is_drift for difference in differences):
        return "drifted"
    return "reworded" if any(difference.kind == "text" for difference in differences) else "identical"
