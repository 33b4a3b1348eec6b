"""Tool calling for models that have none: tools, calls and results as text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from offbook.agent.clients import LLMClient, LLMResponse, StreamChunk
from offbook.messages import JsonObject
from offbook.tools import ToolSpec

_INTRODUCTION = """\
You have tools. To call one, answer with a JSON object on a line of its own, and nothing else:
{"tool": "<name>", "args": {<arguments>}}
To call several, write one object a line. The results follow in the next message. These are the tools:"""


class PromptedTools:
    """A client for a model without tool calling, in front of another client.

    The system prompt describes the tools and how to call one. Earlier calls and their results are sent as text, and so
    does the model write its calls: the guards rescue them, unless their policy forbids it.
    """

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> LLMResponse:
        return await self._client.send(prompt_tools(messages, tools or []))

    async def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        answer = self._client.send_stream(prompt_tools(messages, tools or []))
        async with aclosing(answer) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk


def prompt_tools(messages: Iterable[JsonObject], tools: Sequence[ToolSpec]) -> list[JsonObject]:
    """Return a conversation in the OpenAI chat format as one without tools, which the system prompt describes.

    Neighbouring messages of the user are joined: the templates of many models require that roles alternate.
    """
    written: list[JsonObject] = []
    for message in map(_as_text, messages):
        if written and _is_users_text(message) and _is_users_text(written[-1]):
            written[-1] = {"role": "user", "content": f"{written[-1]['content']}\n\n{message['content']}"}
        else:
            written.append(message)
    return _with_tools(written, tools) if tools else written


def _is_users_text(message: JsonObject) -> bool:
    return message["role"] == "user" and isinstance(message["content"], str)


def _with_tools(messages: list[JsonObject], tools: Sequence[ToolSpec]) -> list[JsonObject]:
    lines = "\n".join([_INTRODUCTION, *map(_tool_line, tools)])
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{lines}"}, *messages[1:]]
    return [{"role": "system", "content": lines}, *messages]


def _tool_line(tool: ToolSpec) -> str:
    about = f": {tool.description}" if tool.description else ""
    return f"- {tool.name}{about}\n  arguments: {_json(tool.schema)}"


def _as_text(message: JsonObject) -> JsonObject:
    """Return a message without calls and results: they are its text."""
    role, content = message["role"], message.get("content") or ""
    if role == "tool":
        return {"role": "user", "content": f"Result of {message.get('name', 'the call')}:\n{content}"}
    calls = [_call_line(call["function"]) for call in message.get("tool_calls") or ()]
    return {"role": role, "content": "\n".join(filter(None, [content, *calls])) if calls else content}


def _call_line(function: JsonObject) -> str:
    arguments: Any = function["arguments"]
    given = arguments if isinstance(arguments, str) else _json(arguments)
    return f'{{"tool": {_json(function["name"])}, "args": {given or "{}"}}}'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
