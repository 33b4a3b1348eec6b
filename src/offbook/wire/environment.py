"""The variables that lead the vendors' SDKs to a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DUMMY_KEY = "offbook"
_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
_PROXIES = ("http_proxy", "all_proxy")


def addresses(url: str) -> dict[str, str]:
    """The variables that tell SDKs, and what reads `OFFBOOK_URL`, where to ask, for a server at `url`."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "OLLAMA_HOST": url,
        "OFFBOOK_URL": url,
    }


def keys(api_key: str = DUMMY_KEY, *, vendors: Iterable[str] = tuple(_KEYS)) -> dict[str, str]:
    """The variables that hold keys, of all vendors or of some, with one that no vendor would take."""
    return dict.fromkeys([name for vendor in vendors for name in _KEYS[vendor]], api_key)


def past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep clients from asking a proxy for what is on this machine, if they have one."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    spared = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, [spared, "127.0.0.1", "localhost"]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}
