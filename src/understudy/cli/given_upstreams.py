"""Where the real APIs are that a command records: as it is told, else as the environment says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.errors import InputError

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


def given_upstreams(lines: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The address of each vendor that one is told for: where its SDK would have asked, unless a line says otherwise.

    Raises:
        InputError: a line is not like `openai=https://…`.
    """
    return _of_environment(environment) | dict(map(_read, lines))


def upstream_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The key of each vendor that the environment has one for."""
    found = {vendor: next(filter(None, map(environment.get, names)), "") for vendor, names in KEYS.items()}
    return {vendor: key for vendor, key in found.items() if key}


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found = {vendor: environment[name] for vendor, name in ADDRESSES.items() if environment.get(name)}
    return found | {"ollama": _ollama_url(found["ollama"])} if "ollama" in found else found


def _ollama_url(host: str) -> str:
    """Ollama's own way to name a host: without a scheme, and where it has its usual port, without that."""
    if "://" in host:
        return host
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, str(OLLAMA_PORT)
    return f"http://{name or '127.0.0.1'}:{port}"


def _read(line: str) -> tuple[str, str]:
    vendor, separator, url = line.partition("=")
    if not (vendor and separator and url):
        hint = "name a vendor and its address: openai=http://127.0.0.1:8000/v1"
        raise InputError(f"cannot be read: {line!r}", source="--upstream", hint=hint)
    return vendor, url
