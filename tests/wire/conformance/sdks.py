"""The vendors' SDKs, each asking one question, whole or streamed."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import anthropic
import boto3
import botocore.endpoint
import ollama
import openai
from botocore.config import Config
from google import genai
from google.genai import types

from tests.wire.conformance.answers import QUESTION
from tests.wire.conformance.seen import Other, Seen

MESSAGES: Any = [{"role": "user", "content": QUESTION}]


class Sdk(ABC):
    """One SDK, and one of the protocols that it speaks."""

    title: str

    @abstractmethod
    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        """Ask for a whole answer."""

    @abstractmethod
    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        """Ask for a stream, and read it to its end."""

    def close(self) -> None:
        """Close what is kept open between questions."""


class OpenAIChat(Sdk):
    title = "openai, chat"

    def __init__(self) -> None:
        self._pooled = openai.OpenAI(api_key="k", base_url="http://unused")

    def close(self) -> None:
        self._pooled.close()

    def _client(self, url: str, timeout_s: float, retries: int) -> openai.OpenAI:
        return self._pooled.with_options(base_url=f"{url}/v1", timeout=timeout_s, max_retries=retries)

    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        client = self._client(url, timeout_s, retries)
        answer = client.chat.completions.create(model="m", messages=MESSAGES)
        if isinstance(answer, str):
            return Other("a `str`")
        if not answer.choices:
            return Other("`choices` is None")
        choice = answer.choices[0]
        calls = tuple((call.function.name, call.function.arguments) for call in choice.message.tool_calls or ())
        return Seen(choice.message.content or "", choice.finish_reason, calls)

    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        client = self._client(url, timeout_s, retries)
        chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
        choices = [choice for chunk in chunks for choice in chunk.choices or ()]
        pieces = [piece.function for choice in choices for piece in choice.delta.tool_calls or ()]
        calls = tuple((piece.name, piece.arguments) for piece in pieces)
        end = next((choice.finish_reason for choice in choices if choice.finish_reason), None)
        return Seen("".join(choice.delta.content or "" for choice in choices), end, calls)


class OpenAIResponses(OpenAIChat):
    title = "openai, responses"

    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        answer = self._client(url, timeout_s, retries).responses.create(model="m", input=QUESTION)
        return Other("a `str`") if isinstance(answer, str) else _read_response(answer)

    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        client = self._client(url, timeout_s, retries)
        text, last = "", None
        for event in client.responses.create(model="m", input=QUESTION, stream=True):
            last = event
            text += event.delta if event.type == "response.output_text.delta" else ""
        answer = getattr(last, "response", None)
        return Seen(text) if answer is None or answer.status == "in_progress" else _read_response(answer)


def _read_response(answer: Any) -> Seen | Other:
    if answer.output is None:
        return Other("`output` is None")
    items = [item for item in answer.output if item.type == "function_call"]
    end = answer.incomplete_details.reason if answer.incomplete_details else answer.status
    return Seen(answer.output_text, end, tuple((item.name, item.arguments) for item in items))


class Anthropic(Sdk):
    title = "anthropic"

    def __init__(self) -> None:
        self._pooled = anthropic.Anthropic(api_key="k", base_url="http://unused")

    def close(self) -> None:
        self._pooled.close()

    def _client(self, url: str, timeout_s: float, retries: int) -> anthropic.Anthropic:
        return self._pooled.with_options(base_url=url, timeout=timeout_s, max_retries=retries)

    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        answer = self._client(url, timeout_s, retries).messages.create(model="m", max_tokens=9, messages=MESSAGES)
        return Other("a `str`") if isinstance(answer, str) else _read_message(answer)

    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        client = self._client(url, timeout_s, retries)
        events = list(client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True))
        starts = [event.content_block for event in events if event.type == "content_block_start"]
        pieces = [event.delta for event in events if event.type == "content_block_delta"]
        end = next((event.delta.stop_reason for event in events if event.type == "message_delta"), None)
        arguments = "".join(piece.partial_json for piece in pieces if piece.type == "input_json_delta")
        calls = tuple((block.name, arguments) for block in starts if block.type == "tool_use")
        return Seen("".join(piece.text for piece in pieces if piece.type == "text_delta"), end, calls)


def _read_message(answer: Any) -> Seen | Other:
    if answer.content is None:
        return Other("`content` is None")
    text = "".join(block.text for block in answer.content if block.type == "text")
    uses = [block for block in answer.content if block.type == "tool_use"]
    return Seen(text, answer.stop_reason, tuple((use.name, json.dumps(use.input)) for use in uses))


class GoogleGenai(Sdk):
    title = "google-genai"

    def __init__(self) -> None:
        self._pooled = genai.Client(api_key="k")

    def close(self) -> None:
        self._pooled.close()

    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        answer = self._pooled.models.generate_content(model="m", contents=QUESTION, config=_config(url, timeout_s))
        return _read_content([answer])

    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        models = self._pooled.models
        return _read_content(
            list(models.generate_content_stream(model="m", contents=QUESTION, config=_config(url, timeout_s)))
        )


def _config(url: str, timeout_s: float) -> types.GenerateContentConfig:
    options = types.HttpOptions(base_url=url, timeout=int(timeout_s * 1000))
    return types.GenerateContentConfig(http_options=options)


def _read_content(answers: list[types.GenerateContentResponse]) -> Seen | Other:
    candidates = [candidate for answer in answers for candidate in answer.candidates or ()]
    if answers and not candidates:
        return Other("`candidates` is None")
    parts = [part for candidate in candidates for part in (candidate.content and candidate.content.parts) or ()]
    calls = tuple(
        (part.function_call.name, json.dumps(part.function_call.args)) for part in parts if part.function_call
    )
    end = next((candidate.finish_reason.name for candidate in candidates if candidate.finish_reason), None)
    return Seen("".join(part.text or "" for part in parts), end, calls)


class Ollama(Sdk):
    title = "ollama"

    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        with ollama.Client(host=url, timeout=timeout_s, verify=False) as client:
            return _read_chat([client.chat("m", MESSAGES)])

    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        with ollama.Client(host=url, timeout=timeout_s, verify=False) as client:
            return _read_chat(list(client.chat("m", MESSAGES, stream=True)))


def _read_chat(answers: list[ollama.ChatResponse]) -> Seen:
    uses = [call.function for answer in answers for call in answer.message.tool_calls or ()]
    end = next((answer.done_reason for answer in answers if answer.done), None)
    text = "".join(answer.message.content or "" for answer in answers)
    return Seen(text, end, tuple((use.name, json.dumps(use.arguments)) for use in uses))


class Boto3(Sdk):
    title = "boto3"

    def __init__(self) -> None:
        self._session = boto3.session.Session("k", "s", region_name="us-east-1")
        self._clients: dict[tuple[float, int], Any] = {}
        self._url = ""

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _client(self, url: str, timeout_s: float, retries: int) -> Any:
        """A client of its own for each setting, as creating one takes long; each call is sent to `url`."""
        self._url = url
        if (timeout_s, retries) not in self._clients:
            settings = Config(read_timeout=timeout_s, retries={"total_max_attempts": retries + 1})
            client = self._session.client("bedrock-runtime", endpoint_url=_UNUSED, config=settings)
            client.meta.events.register("before-call", self._lead)
            self._clients[timeout_s, retries] = client
        return self._clients[timeout_s, retries]

    def _lead(self, params: dict[str, Any], **_: Any) -> None:
        params["url"] = params["url"].replace(_UNUSED, self._url)

    def ask(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        with without_waits():
            answer = self._client(url, timeout_s, retries).converse(modelId="m", messages=CONVERSE_MESSAGES)
        if "output" not in answer:
            return Other("no `output`")
        blocks = answer["output"]["message"]["content"]
        uses = [block["toolUse"] for block in blocks if "toolUse" in block]
        calls = tuple((use["name"], json.dumps(use["input"])) for use in uses)
        return Seen("".join(block.get("text", "") for block in blocks), answer["stopReason"], calls)

    def ask_streamed(self, url: str, *, timeout_s: float, retries: int) -> Seen | Other:
        with without_waits():
            answer = self._client(url, timeout_s, retries).converse_stream(modelId="m", messages=CONVERSE_MESSAGES)
        with closing(answer["stream"]) as stream:
            events = list(stream)
        starts = [event["contentBlockStart"]["start"]["toolUse"] for event in events if "contentBlockStart" in event]
        pieces = [event["contentBlockDelta"].get("delta", {}) for event in events if "contentBlockDelta" in event]
        end = next((event["messageStop"]["stopReason"] for event in events if "messageStop" in event), None)
        arguments = "".join(piece["toolUse"]["input"] for piece in pieces if "toolUse" in piece)
        text = "".join(piece.get("text", "") for piece in pieces)
        return Seen(text, end, tuple((start["name"], arguments) for start in starts))


_UNUSED = "http://unused"
CONVERSE_MESSAGES = [{"role": "user", "content": [{"text": QUESTION}]}]


@contextmanager
def without_waits() -> Iterator[list[float]]:
    """Let boto3 retry at once, as no header makes it hurry. Yields how long it would have waited each time, in s."""
    waits_s: list[float] = []
    hurried = SimpleNamespace(sleep=waits_s.append, time=time.time)
    with mock.patch.object(botocore.endpoint, "time", hurried):
        yield waits_s


SDKS: tuple[type[Sdk], ...] = (OpenAIChat, OpenAIResponses, Anthropic, GoogleGenai, Ollama, Boto3)
