"""The environment of a command whose calls of models are to come to a server of ours."""

from __future__ import annotations

from collections.abc import Mapping

URL = "UNDERSTUDY_URL"
_PROXIES = ("http_proxy", "all_proxy")


def child_environment(environment: Mapping[str, str], url: str, led: Mapping[str, str]) -> dict[str, str]:
    """The `environment` with the variables that lead SDKs to the server at `url`, past any proxy."""
    return {**environment, **led, URL: url, **_past_proxies(environment)}


def _past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep clients from asking a proxy for what is on this machine, if they have one."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    spared = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, [spared, "127.0.0.1", "localhost"]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}
