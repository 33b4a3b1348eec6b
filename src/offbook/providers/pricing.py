"""The price of tokens: a dated table, shipped as data, that users can extend or replace."""

from __future__ import annotations

import logging
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from offbook.errors import InputError
from offbook.files import read_file
from offbook.messages import Usage
from offbook.schema_errors import check_keys, explain_json_error, explain_msgspec_error

_EXAMPLE = '{"as_of": "2026-01-31", "models": {"name": {"prompt": 1.0, "completion": 2.0}}}'

logger = logging.getLogger("offbook.pricing")
TOKENS_PER_UNIT = 1_000_000
_Dollars: TypeAlias = Annotated[float, Meta(ge=0)]


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens. Cached prompt tokens cost as much as others unless `cached` is set."""

    prompt: _Dollars
    completion: _Dollars
    cached: _Dollars | None = None

    def cost_usd(self, usage: Usage) -> float:
        fresh = usage.prompt_tokens - usage.cached_tokens
        cached = self.prompt if self.cached is None else self.cached
        total = fresh * self.prompt + usage.cached_tokens * cached + usage.completion_tokens * self.completion
        return total / TOKENS_PER_UNIT


class _Table(Struct, forbid_unknown_fields=True):
    as_of: str
    models: dict[str, Price]
    free_providers: list[str] = []


class PriceTable:
    """Prices by model. A model without a price has that of its longest known prefix."""

    def __init__(self, models: dict[str, Price], *, as_of: str = "", free_providers: tuple[str, ...] = ()) -> None:
        self.models, self.as_of, self.free_providers = models, as_of, free_providers
        self._unknown: set[str] = set()

    @staticmethod
    def load(path: str | PathLike[str]) -> PriceTable:
        """Load a JSON file in the format of offbook's own `prices.json`.

        Raises:
            InputError: the file cannot be read as a price table.
        """
        try:
            data = read_file(path)
            check_keys(data)
            return _parse(data)
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(path), hint=_EXAMPLE) from None
        except msgspec.ValidationError as error:
            reason, place = explain_msgspec_error(error)
            raise InputError(reason, source=str(path), place=place.removeprefix("."), hint=_EXAMPLE) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason, place = explain_json_error(data, error)
            raise InputError(reason, source=str(path), place=place, hint=_EXAMPLE) from None

    @staticmethod
    def shipped() -> PriceTable:
        """Return the table that comes with offbook."""
        return _shipped()

    def override(self, models: dict[str, Price]) -> PriceTable:
        """Return this table with other or further prices."""
        return PriceTable(self.models | models, as_of=self.as_of, free_providers=self.free_providers)

    def cost_usd(self, provider: str, model: str, usage: Usage) -> float:
        """Return the cost of `usage`. A model without a known price costs nothing, and is logged once as a warning."""
        if provider in self.free_providers:
            return 0.0
        price = self.find(model)
        if price is not None:
            return price.cost_usd(usage)
        if model not in self._unknown:
            self._unknown.add(model)
            logger.warning("no price is known for model %r: its cost is counted as 0; add it with prices=", model)
        return 0.0

    def find(self, model: str) -> Price | None:
        """Return the price of `model`, else that of its name without the path before it (`openai/gpt-4o`)."""
        price = self._find_prefix(model)
        return self._find_prefix(model.rpartition("/")[2]) if price is None else price

    def _find_prefix(self, name: str) -> Price | None:
        for end in range(len(name), 0, -1):
            if name[:end] in self.models and (end == len(name) or name[end] in "-@:."):
                return self.models[name[:end]]
        return None


def _parse(data: bytes) -> PriceTable:
    table = msgspec.json.decode(data, type=_Table)
    return PriceTable(table.models, as_of=table.as_of, free_providers=tuple(table.free_providers))


@cache
def _shipped() -> PriceTable:
    return _parse(files("offbook.providers").joinpath("prices.json").read_bytes())
