"""Token prices: the user's own, and those of the library genai-prices."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias

from msgspec import Meta, Struct

from offbook.errors import InputError
from offbook.files import read_file
from offbook.messages import Usage
from offbook.schema_errors import decode_json

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Tier, TieredPrices

PRICES_VARIABLE = "OFFBOOK_PRICES"
_EXAMPLE = '{"as_of": "2026-01-31", "models": {"name": {"prompt": 1.0, "completion": 2.0}}}'

logger = logging.getLogger("offbook.pricing")
TOKENS_PER_UNIT = 1_000_000
_Dollars: TypeAlias = Annotated[float, Meta(ge=0)]


class PriceTier(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens for prompts above `above` tokens."""

    above: Annotated[int, Meta(ge=0)]
    prompt: _Dollars
    completion: _Dollars
    cached: _Dollars | None = None


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens. Cached prompt tokens cost the same unless `cached` is set.

    The last of the `tiers` whose `above` the prompt exceeds replaces all three prices.
    """

    prompt: _Dollars
    completion: _Dollars
    cached: _Dollars | None = None
    tiers: tuple[PriceTier, ...] = ()

    def cost_usd(self, usage: Usage) -> float:
        price: Price | PriceTier = self
        for tier in self.tiers:
            if usage.prompt_tokens > tier.above:
                price = tier
        fresh = usage.prompt_tokens - usage.cached_tokens
        cached = price.prompt if price.cached is None else price.cached
        total = fresh * price.prompt + usage.cached_tokens * cached + usage.completion_tokens * price.completion
        return total / TOKENS_PER_UNIT


class _Period(Protocol):
    """The period of a price: from a day on, or certain hours of each day."""

    def active(self, request_timestamp: datetime) -> bool: ...


class _DatedPrices(Struct, frozen=True):
    """The prices of a model. The last one in its period counts, or the first one."""

    prices: tuple[tuple[_Period | None, Price], ...] = ()

    def find(self, at: datetime | None) -> Price | None:
        for period, price in reversed(self.prices):
            if period is None or at is None or period.active(at):
                return price
        return self.prices[0][1] if self.prices else None


class _Table(Struct, forbid_unknown_fields=True):
    as_of: str
    models: dict[str, Price]
    free_providers: list[str] = []


FREE_PROVIDERS = ("ollama",)
_DATED = re.compile(r"[-@](20\d\d-?[01]\d-?[0-3]\d|latest)")


class PriceTable:
    """Prices by model. Own prices take precedence over those of genai-prices, which it uses if it `has_known` ones.

    An own price counts for its name, with a path before it (`openai/gpt-4o`) and a date after it (`gpt-4o-2024-08-06`).
    Known prices change with time: a call costs the price `at` its moment. Without a moment, the newest price counts, so
    equal runs have equal costs.
    """

    def __init__(
        self,
        models: dict[str, Price],
        *,
        as_of: str = "",
        free_providers: tuple[str, ...] = (),
        has_known: bool = False,
    ) -> None:
        self.models, self.as_of, self.free_providers, self.has_known = models, as_of, free_providers, has_known
        self._found: dict[tuple[str, str], _DatedPrices] = {}

    @staticmethod
    def load(path: str | PathLike[str]) -> PriceTable:
        """Load a JSON file of prices: `as_of`, `models` and, optionally, `free_providers`.

        Raises:
            InputError: the file cannot be read as a price table.
        """
        try:
            data = read_file(path)
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(path), hint=_EXAMPLE) from None
        table = decode_json(data, _Table, source=str(path), hint=_EXAMPLE)
        return PriceTable(table.models, as_of=table.as_of, free_providers=tuple(table.free_providers))

    @staticmethod
    def shipped() -> PriceTable:
        """Return the table of all prices that genai-prices knows. The library is loaded with the first price."""
        return _shipped()

    @staticmethod
    def default() -> PriceTable:
        """Return the shipped table, with the prices of the file that the variable `OFFBOOK_PRICES` names before them.

        Raises:
            InputError: the file cannot be read as a price table.
        """
        path = os.environ.get(PRICES_VARIABLE)
        return _extended(path) if path else _shipped()

    def override(self, models: dict[str, Price]) -> PriceTable:
        """Return this table with additional or other prices."""
        return PriceTable(
            self.models | models, as_of=self.as_of, free_providers=self.free_providers, has_known=self.has_known
        )

    def cost_usd(self, provider: str, model: str, usage: Usage, *, at: datetime | None = None) -> float:
        """Return the cost of `usage`. A model without a known price costs nothing, and is logged once as a warning."""
        if provider in self.free_providers or not usage.total_tokens:
            return 0.0
        is_first = (provider, model) not in self._found
        price = self.find(model, provider=provider, at=at)
        if price is not None:
            return price.cost_usd(usage)
        if is_first:
            logger.warning("no price is known for model %r: its cost is counted as 0; %s", model, _hint(model))
        return 0.0

    def require(self, model: str, *, provider: str) -> None:
        """Check that calls of `model` have a price, before a budget relies on it.

        Raises:
            InputError: no price is known.
        """
        if provider not in self.free_providers and self.find(model, provider=provider) is None:
            reason = f"no price is known for model {model!r}, so a budget in US dollars cannot stop its calls"
            raise InputError(reason, source=f"provider {provider}", hint=_hint(model))

    def find(self, model: str, *, provider: str = "", at: datetime | None = None) -> Price | None:
        """Return the price of `model` at `provider`, if genai-prices knows it, or None."""
        key = provider, model
        if key not in self._found:
            self._found[key] = self._look_up(model, provider)
        return self._found[key].find(at)

    def _look_up(self, model: str, provider: str) -> _DatedPrices:
        name = model.rpartition("/")[2]
        for own in (model, _undated(model), name, _undated(name)):
            if own in self.models:
                return _DatedPrices(((None, self.models[own]),))
        return _known_prices(model, provider) if self.has_known and model else _DatedPrices()


def _undated(name: str) -> str:
    dated = _DATED.search(name)
    return name if dated is None or dated.end() < len(name) else name[: dated.start()]


def _hint(model: str) -> str:
    price = f'{{"as_of": "2026-01-31", "models": {{"{model}": {{"prompt": 1.0, "completion": 2.0}}}}}}'
    return f"state it: export {PRICES_VARIABLE}=prices.json, a file like {price}, or prices= in Python"


@cache
def _shipped() -> PriceTable:
    return PriceTable({}, free_providers=FREE_PROVIDERS, has_known=True)


@cache
def _extended(path: str) -> PriceTable:
    own = PriceTable.load(path)
    free = (*FREE_PROVIDERS, *own.free_providers)
    return PriceTable(own.models, as_of=own.as_of, free_providers=free, has_known=True)


_PROVIDER_IDS = {"openai_responses": "openai"}
_ROUTER = "openrouter"
"""A provider whose models have their vendor's name and a slash in front, as on many compatible servers."""


def _known_prices(model: str, provider: str) -> _DatedPrices:
    """Return the prices that genai-prices ships for a model. It downloads nothing."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - takes longer than a whole replay

    for provider_id, name in _references(model, provider):
        try:
            _, found = get_snapshot().find_provider_model(name, None, provider_id, None)
        except LookupError:
            continue
        return _DatedPrices(tuple(_dated_prices(found)))
    return _DatedPrices()


def _references(model: str, provider: str) -> Iterator[tuple[str | None, str]]:
    """Yield the names under which a model may be known: with its provider, alone, and by the path before it."""
    yield _PROVIDER_IDS.get(provider, provider) or None, model
    yield None, model
    path, slash, name = model.rpartition("/")
    if slash:
        yield path.rpartition("/")[2] or None, name
        yield _ROUTER, model


def _dated_prices(model: ModelInfo) -> Iterator[tuple[_Period | None, Price]]:
    from genai_prices.types import ModelPrice  # noqa: PLC0415 - loaded by then

    if isinstance(model.prices, ModelPrice):
        dated: list[tuple[_Period | None, ModelPrice]] = [(None, model.prices)]
    else:
        dated = [(each.constraint, each.prices) for each in model.prices]
    return ((period, price) for period, known in dated if (price := _price_of(known)) is not None)


def _price_of(known: ModelPrice) -> Price | None:
    """Return the price of a model's tokens, or None if other units are billed, such as minutes of audio."""
    if known.input_mtok is None:
        return None
    starts = {
        tier.start for rate in (known.input_mtok, known.output_mtok, known.cache_read_mtok) for tier in _tiers(rate)
    }
    base = _rates(known, 0)
    return Price(*base, tiers=tuple(PriceTier(start, *_rates(known, start + 1)) for start in sorted(starts)))


def _rates(known: ModelPrice, tokens: int) -> tuple[float, float, float | None]:
    cached = known.cache_read_mtok
    prompt, completion = _rate(known.input_mtok, tokens), _rate(known.output_mtok, tokens)
    return prompt, completion, None if cached is None else _rate(cached, tokens)


def _tiers(rate: Decimal | TieredPrices | None) -> list[Tier]:
    return [] if rate is None or isinstance(rate, Decimal) else rate.tiers


def _rate(rate: Decimal | TieredPrices | None, tokens: int) -> float:
    """Return the price for a prompt of `tokens` tokens."""
    if rate is None or isinstance(rate, Decimal):
        return float(rate or 0)
    return float(next((tier.price for tier in reversed(rate.tiers) if tokens > tier.start), rate.base))
