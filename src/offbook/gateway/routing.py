"""Routing: which providers accept a model, and in which order they are tried."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from offbook.errors import NoProviderError
from offbook.providers.provider import Provider

CACHED_MODELS = 256


class ProviderRoute(Struct, frozen=True):
    """A provider, the models that it accepts, its rank, and the name of the model at that provider.

    Lower `priority` comes first; fallbacks come last.
    """

    provider: Provider
    models: tuple[str, ...] = ("*",)
    priority: int = 0
    is_fallback: bool = False
    as_model: str | None = None

    def accepts(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


class RoutingTable:
    """All routes in order of registration, and those of each model."""

    def __init__(self) -> None:
        self.routes: list[ProviderRoute] = []
        self._cached_find = lru_cache(CACHED_MODELS)(self._find)

    def add(self, route: ProviderRoute) -> None:
        self.routes.append(route)
        self._cached_find.cache_clear()

    def find(self, model: str) -> list[ProviderRoute]:
        """Return the routes that accept `model`, first choice first.

        Raises:
            NoProviderError: there is none.
        """
        return self._cached_find(model)

    def _find(self, model: str) -> list[ProviderRoute]:
        chosen = [route for route in self.routes if route.accepts(model)]
        if not chosen:
            known = "; ".join(f"{route.provider.name}: {', '.join(route.models)}" for route in self.routes)
            hint = f"registered: {known}" if known else "gateway.register(provider) first"
            raise NoProviderError(f"no provider accepts model {model!r}", hint=hint)
        return sorted(chosen, key=lambda route: (route.is_fallback, route.priority))
