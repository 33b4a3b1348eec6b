"""The environment of a command whose calls of models are to come to a server of ours."""

from __future__ import annotations

from collections.abc import Mapping

from offbook.wire.environment import past_proxies
from offbook.wire.serving import WireServer


def child_environment(environment: Mapping[str, str], server: WireServer) -> dict[str, str]:
    """The `environment`, with the variables that lead to the server, past any proxy."""
    return {**environment, **server.env, **past_proxies(environment)}
