"""Models on loopback: what a server of a vendor's protocol answers, whole and streamed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from offbook.codecs.base import Codec, WireRequest
from offbook.errors import ProviderError
from offbook.messages import Request, Response, Usage, deltas_of
from offbook.vendors import codec_of

from .loopback import PATIENCE_S, LoopbackServer, ServerCall


def chat_answer(content: str, *, model: str = "demo") -> bytes:
    """The body of a complete answer of OpenAI's chat completions."""
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return orjson.dumps({"id": "1", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage})


def said(content: str = "", **fields: Any) -> Response:
    """An answer that costs ten tokens."""
    return Response(content=content, model="m", usage=Usage.of(4, 6), **fields)


class CodecServer(LoopbackServer):
    """Answers every call with what `respond` makes of the request, or with the error it raises, as a codec writes it.

    A streamed answer is one event for each delta; `requests` holds what was asked.
    """

    def __init__(self, codec: Codec, respond: Callable[[Request], Response]) -> None:
        super().__init__(self._respond)
        self.codec, self.respond = codec, respond
        self.requests: list[Request] = []

    def _respond(self, call: ServerCall) -> None:
        request = self.codec.decode_request(WireRequest(call.path, orjson.loads(call.body)))
        self.requests.append(request)
        try:
            response = self.respond(request)
        except ProviderError as error:
            status = error.status_code or 500
            call.whole(orjson.dumps(self.codec.encode_error(status, str(error))), status=status)
            return
        if request.stream:
            call.stream(*self.codec.encode_stream(response, deltas_of(response)))
        else:
            call.whole(orjson.dumps(self.codec.encode_response(response)))


class ChatModel(CodecServer):
    """Answers chat completions with what `answer_to` makes of the last message; can be made to hold its answers.

    An answer that finished as `refused` is a 400. `answered` counts the answers by what was asked.
    """

    def __init__(self, answer_to: Callable[[str], Response]) -> None:
        super().__init__(codec_of("openai_chat"), lambda request: _not_refused(answer_to(_last(request))))
        self.answered: Counter[str] = Counter()
        self._held, self._holding = set[str](), set[str]()
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def hold(self, *prompts: str) -> None:
        """From now on, leave these unanswered, and no others."""
        with self._changed:
            self._held, self._holding = set(prompts), set()

    def wait_until_holding(self, *prompts: str) -> None:
        """Wait until each of these has been asked, and is held."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._holding.issuperset(prompts), 6 * PATIENCE_S), self.answered

    def _respond(self, call: ServerCall) -> None:
        if self._is_held(_last(self.codec.decode_request(WireRequest(call.path, orjson.loads(call.body))))):
            call.has_client_left()
        else:
            super()._respond(call)

    def _is_held(self, prompt: str) -> bool:
        with self._changed:
            if prompt in self._held:
                self._holding.add(prompt)
                self._changed.notify_all()
                return True
            self.answered[prompt] += 1
            return False


def _not_refused(response: Response) -> Response:
    if response.finish_reason == "refused":
        raise ProviderError("refused", status_code=400)
    return response


def _last(request: Request) -> str:
    return str(request.messages[-1]["content"])
