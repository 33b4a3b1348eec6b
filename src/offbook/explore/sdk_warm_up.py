"""Keeps the first requests of the clean run, and sends them once more before the processes of cases are forked.

They are sent by the SDK itself to their recorded answers: see `providers/first_use.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from offbook.providers.first_use import Sdk, send_again
from offbook.session.sources import RecordedModels
from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.backend import accept_in
from offbook.wire.recordings import AnswerEncoder
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


def warm_up(requests: Iterable[SentRequest], encoder: AnswerEncoder) -> None:
    """Send each request once more, by its SDK if the clean run has used that."""
    answers = _RecordedAnswers(encoder)
    for path, body in requests:
        send_again(path, body, answers.option_of)


class _RecordedAnswers(InProcessClients):
    def __init__(self, encoder: AnswerEncoder) -> None:
        self._session = WireSession(
            "", parser=encoder.parser, source=RecordedModels(encoder.tape), encoder=encoder, on_call=lambda _: None
        )

    def option_of(self, sdk: Sdk) -> dict[str, Any]:
        is_transport = sdk.client_option == "transport"
        return {sdk.client_option: self.httpx_transport() if is_transport else self.sync_http_client()}

    def accept(self, request: HttpRequest) -> InProcessCall:
        answer = accept_in(self._session, request).answer
        assert answer is not None
        return InProcessCall(answer)

    def close(self) -> None:
        """Do nothing."""
