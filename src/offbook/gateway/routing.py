"""Which providers can answer a request, and in which order they are tried."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from offbook.errors import NoProviderError
from offbook.providers.provider import Provider

CACHED_MODELS = 256


class ProviderRoute(Struct, frozen=True):
    """A provider and what it is asked: the models it takes, its rank, and the name it knows the model by.

    Lower `priority` comes first; a fallback comes after all that are none.
    """

    provider: Provider
    models: tuple[str, ...] = ("*",)
    priority: int = 0
    is_fallback: bool = False
    as_model: str | None = None

    def takes(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


class RoutingTable:
    """All routes, in the order in which they were added, and which of them lead to a model."""

    def __init__(self) -> None:
        self.routes: list[ProviderRoute] = []
        self._remembered = lru_cache(CACHED_MODELS)(self._find)

    def add(self, route: ProviderRoute) -> None:
        self.routes.append(route)
        self._remembered.cache_clear()

    def find(self, model: str) -> list[ProviderRoute]:
        """The routes that take `model`, first choice first.

        Raises:
            NoProviderError: there is none.
        """
        return self._remembered(model)

    def _find(self, model: str) -> list[ProviderRoute]:
        chosen = [route for route in self.routes if route.takes(model)]
        if not chosen:
            known = "; ".join(f"{route.provider.name}: {', '.join(route.models)}" for route in self.routes)
            hint = f"registered: {known}" if known else "gateway.register(provider) first"
            raise NoProviderError(f"no provider takes model {model!r}", hint=hint)
        return sorted(chosen, key=lambda route: (route.is_fallback, route.priority))
