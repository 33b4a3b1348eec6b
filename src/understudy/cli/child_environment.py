"""The environment of a command whose calls of models are to come to a server of ours."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.wire.serving import WireServer

_PROXIES = ("http_proxy", "all_proxy")


def leading_variables(server: WireServer) -> dict[str, str]:
    """The variables that lead the vendors' SDKs, and whatever reads `UNDERSTUDY_URL`, to the server."""
    return {**server.env, "UNDERSTUDY_URL": server.url}


def child_environment(environment: Mapping[str, str], server: WireServer) -> dict[str, str]:
    """The `environment`, with the variables that lead to the server, past any proxy."""
    return {**environment, **leading_variables(server), **_past_proxies(environment)}


def _past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep clients from asking a proxy for what is on this machine, if they have one."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    spared = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, [spared, "127.0.0.1", "localhost"]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}
