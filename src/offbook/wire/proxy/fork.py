"""A fork of a recorded run: the first calls are answered from its recording, and the rest by the real APIs."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import orjson
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.wire_record import WEBSOCKET_METHOD
from offbook.recording.match.cursor import ExchangeMatch
from offbook.session.recorder import Recorder
from offbook.session.sources import RecordedModels, RecordedTools
from offbook.session.tape import Tape
from offbook.wire.proxy.recorder import WireRecorder
from offbook.wire.proxy.upstream import UpstreamRequest
from offbook.wire.request import unpacked_body
from offbook.wire.response import HttpResponse
from offbook.wire.session import CallAttempt, WireSession

_MODEL_IN_PATH = re.compile(r"(?<=/models/)[^/:]+(?=:)|(?<=/model/)[^/]+(?=/)|(?<=/deployments/)[^/]+(?=/)")
"""The model in a path of Gemini, Vertex AI or Azure, or of Bedrock, whose models may have a colon."""


class ForkedSession(WireSession):
    """Answers model calls from a recording, and leaves those from number `live_from` on to the real APIs.

    Other requests go there only after that, if they are not recorded, and WebSocket sessions never. The `recorder`
    copies served exchanges, so the new recording has the whole run.
    """

    needs_numbers = True

    def __init__(self, name: str, *, live_from: int, recorder: WireRecorder, **given: Any) -> None:
        super().__init__(name, **given)
        self._live_from, self._recorder, self._has_forked = live_from, recorder, False

    def answer(self, attempt: CallAttempt) -> HttpResponse | None:
        is_websocket = attempt.parsed.is_message or attempt.parsed.method == WEBSOCKET_METHOD
        if attempt.call >= self._live_from and not is_websocket:
            self._has_forked = True
            return None
        self.is_live = self._has_forked and not attempt.call and not is_websocket
        return super().answer(attempt)

    def _use(self, source: RecordedModels, match: ExchangeMatch[Exchange]) -> None:
        super()._use(source, match)
        if match.stored is not None:
            self._recorder.copy(match.stored)


class ForkedTools(RecordedTools):
    """Answers the tools of a forked run from the old recording, and copies the served exchanges."""

    def __init__(self, tape: Tape, *, recorder: Recorder) -> None:
        super().__init__(tape)
        self._recorder = recorder

    def use(self, match: ExchangeMatch[ToolExchange]) -> None:
        super().use(match)
        if match.stored is not None:
            self._recorder.copy_tool(match.stored)


def with_model(sent: UpstreamRequest, model: str) -> UpstreamRequest:
    """Return a model call for another model, named in its body or its path, as in its protocol.

    Raises:
        InputError: the request names no model.
    """
    body = orjson.loads(unpacked_body(sent.request))
    path, replaced = _MODEL_IN_PATH.subn(quote(model, safe=""), sent.raw_path, count=1)
    has_field = isinstance(body, dict) and "model" in body
    if not has_field and not replaced:
        raise InputError("the request names no model that could be replaced")
    if has_field:
        body["model"] = model
    request = replace(sent.request, body=orjson.dumps(body))
    headers = [(name, value) for name, value in sent.headers if name.lower() != b"content-encoding"]
    return UpstreamRequest(sent.route, request, path, headers)
