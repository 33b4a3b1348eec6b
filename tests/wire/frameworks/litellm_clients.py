"""LiteLLM with the models of four vendors."""

from __future__ import annotations

import json
import os
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one when it is imported

import litellm

from tests.wire.frameworks.client import PATIENCE_S, Client, Report
from tests.wire.frameworks.scripts import QUESTION

litellm.suppress_debug_info = True

MESSAGES = [{"role": "user", "content": QUESTION}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]


class LiteLlm(Client):
    """`litellm.completion` with a model. It is asked in threads: its asynchronous clients outlive their event loops."""

    model: ClassVar[str]
    path: ClassVar[str] = ""

    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        return (await to_thread(self._complete, url, MESSAGES, timeout=timeout_s)).choices[0].message.content

    async def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        def pieces() -> list[Any]:
            return list(self._complete(url, MESSAGES, timeout=timeout_s, stream=True))

        for piece in await to_thread(pieces):
            yield piece.choices[0].delta.content or ""

    async def use_tools(self, url: str, weather: Callable[[str], str], *, is_streamed: bool) -> str:
        return await to_thread(self._run_tools, url, weather, is_streamed=is_streamed)

    def _run_tools(self, url: str, weather: Callable[[str], str], *, is_streamed: bool) -> str:
        messages: list[Any] = list(MESSAGES)
        while True:
            answer = self._complete(url, messages, tools=TOOLS, stream=is_streamed)
            if is_streamed:
                answer = litellm.stream_chunk_builder(list(answer))
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content
            messages += [message.model_dump(), *[_result(call, weather) for call in message.tool_calls]]

    async def report(self, url: str) -> Report:
        answer = await to_thread(self._complete, url, MESSAGES, response_format=Report)
        return Report.model_validate_json(answer.choices[0].message.content)

    def _complete(self, url: str, messages: list[Any], **more: Any) -> Any:
        return litellm.completion(self.model, messages, api_base=url + self.path, api_key="none", **more)


def _result(call: Any, weather: Callable[[str], str]) -> dict[str, str]:
    city = json.loads(call.function.arguments)["city"]
    return {"role": "tool", "tool_call_id": call.id, "name": "weather", "content": weather(city)}


class OpenAI(LiteLlm):
    title = "openai/"
    model, path = "openai/gpt-5", "/v1"


class Anthropic(LiteLlm):
    title = "anthropic/"
    model = "anthropic/claude-sonnet-4-5"


class Gemini(LiteLlm):
    title = "gemini/"
    never_ends = ('everywhere: malformed_response "not json"',)
    model, path = "gemini/gemini-2.5-flash", "/v1beta"


class Ollama(LiteLlm):
    title = "ollama_chat/"
    model = "ollama_chat/llama3"
    merges_streamed_calls = True


CLIENTS = (OpenAI(), Anthropic(), Gemini(), Ollama())
