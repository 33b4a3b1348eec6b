"""Where the environment says that the real APIs are, and with which keys they are asked."""

from __future__ import annotations

from collections.abc import Mapping

ADDRESSES = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "ollama": "OLLAMA_HOST",
}
"""The variable of each vendor that tells its SDK where to ask."""

KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
"""The variables of each vendor that hold its key; the first that is set counts."""

OLLAMA_PORT = 11434


def upstreams_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The address of each vendor whose SDK is told one by the environment."""
    found = {vendor: environment[name] for vendor, name in ADDRESSES.items() if environment.get(name)}
    return found | {"ollama": _ollama_url(found["ollama"])} if "ollama" in found else found


def upstream_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The key of each vendor that the environment has one for."""
    found = {vendor: next(filter(None, map(environment.get, names)), "") for vendor, names in KEYS.items()}
    return {vendor: key for vendor, key in found.items() if key}


def _ollama_url(host: str) -> str:
    """Ollama's own way to name a host: without a scheme, and where it has its usual port, without that."""
    if "://" in host:
        return host
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, str(OLLAMA_PORT)
    return f"http://{name or '127.0.0.1'}:{port}"
