"""Who may ask: anybody on loopback, and whoever has the key of a server that has one."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from offbook.wire.http_call import HttpCall

_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


class Access:
    """Lets calls in that carry `api_key` where their vendor's clients put a key; without a key, all."""

    def __init__(self, api_key: str = "") -> None:
        self._api_key = api_key.encode()

    def allows(self, call: HttpCall) -> bool:
        return not self._api_key or any(hmac.compare_digest(key.encode(), self._api_key) for key in _keys(call))


def _keys(call: HttpCall) -> list[str]:
    bearer = call.headers.get("authorization", "").partition(" ")[2]
    carried = [bearer, *(call.headers.get(name, "") for name in _KEY_HEADERS)]
    return carried + parse_qs(call.query).get("key", []) if call.query else carried
