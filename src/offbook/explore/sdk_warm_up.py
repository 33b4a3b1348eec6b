"""Keeps the first requests of the clean run, and sends them once more before the processes of cases are forked.

They are sent by the SDK itself to their recorded answers: see `providers/first_use.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from offbook.providers.first_use import Sdk, send_again
from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.backend import accept_in
from offbook.wire.replay import WireReplay
from offbook.wire.replay_source import ReplaySource
from offbook.wire.request import HttpRequest
from offbook.wire.session import WireSession

MAX_REQUESTS, MAX_BYTES = 16, 1 << 20
"""The limits of the requests that are sent once more: their number and total size. More would build no new models."""


SentRequest: TypeAlias = tuple[str, bytes]
"""A request that the clean run has sent to a model: its path and its JSON body."""


class SentRequests:
    """The first requests of a run: so many at most."""

    def __init__(self, most: int = MAX_REQUESTS) -> None:
        self.requests: list[SentRequest] = []
        self._most, self._left_bytes = most, MAX_BYTES

    def add(self, request: HttpRequest) -> None:
        self._left_bytes -= len(request.body)
        if request.body and self._left_bytes >= 0 and len(self.requests) < self._most:
            self.requests.append((request.path, request.body))


def warm_up(requests: Iterable[SentRequest], source: ReplaySource) -> None:
    """Send each request once more, by its SDK if the clean run has used that."""
    answers = _RecordedAnswers(source)
    for path, body in requests:
        send_again(path, body, answers.option_of)


class _RecordedAnswers(InProcessClients):
    def __init__(self, source: ReplaySource) -> None:
        replay = WireReplay(source, default_response="")
        self._session = WireSession("", parser=source.parser, replay=replay, on_call=lambda _: None)

    def option_of(self, sdk: Sdk) -> dict[str, Any]:
        is_transport = sdk.client_option == "transport"
        return {sdk.client_option: self.httpx_transport() if is_transport else self.sync_http_client()}

    def accept(self, request: HttpRequest) -> InProcessCall:
        answer = accept_in(self._session, request).answer
        assert answer is not None
        return InProcessCall(answer)

    def close(self) -> None:
        """Do nothing."""
