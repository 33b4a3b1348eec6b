"""The messages of model calls as attributes of spans, in the form of the semantic conventions for generative AI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import orjson

from offbook.events import CallContent
from offbook.messages import JsonObject, Response
from offbook.recording.redact.rules import mask_encoded

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS = ("span_only", "span_and_event", "true")
"""The values by which instrumentations put messages on spans; `true` is the older one."""


def captures_on_spans() -> bool:
    """Return whether the environment asks for messages on spans. By default it does not."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _ON_SPANS


def content_attributes(content: CallContent) -> dict[str, str]:
    """Return the messages of a call as attributes, each as JSON, without secrets by the rules in force.

    A system message that comes first is the instructions. A failed call has no output.
    """
    messages = list(content.request.messages)
    system = messages.pop(0) if messages and messages[0]["role"] in ("system", "developer") else None
    attributes: dict[str, Any] = {
        "gen_ai.system_instructions": None if system is None else list(_content_parts(system.get("content"))),
        "gen_ai.input.messages": [_input_message(message) for message in messages],
        "gen_ai.output.messages": None if content.response is None else [_output_message(content.response)],
    }
    return {name: mask_encoded(orjson.dumps(value)).decode() for name, value in attributes.items() if value is not None}


def _input_message(message: JsonObject) -> JsonObject:
    if message["role"] == "tool":
        answer = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": "tool", "parts": [answer]}
    parts = [*_content_parts(message.get("content")), *_reasoning_parts(message.get("reasoning_content"))]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(_call_part(call.get("id"), function.get("name"), function.get("arguments")))
    return {"role": message["role"], "parts": parts}


def _output_message(response: Response) -> JsonObject:
    parts = [*_content_parts(response.content), *_reasoning_parts(response.reasoning)]
    parts += [_call_part(call.id, call.tool, call.args) for call in response.tool_calls]
    return {"role": "assistant", "parts": parts, "finish_reason": response.finish_reason}


def _content_parts(content: Any) -> Iterator[JsonObject]:
    """Yield the parts of a message. Of what is not text, such as an image, only the type."""
    if isinstance(content, str):
        yield from [{"type": "text", "content": content}] if content else []
        return
    for part in content or ():
        is_text = part.get("type") == "text"
        yield {"type": "text", "content": part.get("text")} if is_text else {"type": str(part.get("type"))}


def _reasoning_parts(reasoning: Any) -> Iterator[JsonObject]:
    if reasoning:
        yield {"type": "reasoning", "content": reasoning}


def _call_part(id: str | None, name: Any, arguments: Any) -> JsonObject:
    return {"type": "tool_call", "id": id or None, "name": name, "arguments": _parsed(arguments)}


def _parsed(arguments: Any) -> Any:
    """Return arguments that are JSON as an object, and others as they are."""
    try:
        return orjson.loads(arguments) if isinstance(arguments, str) else arguments
    except orjson.JSONDecodeError:
        return arguments
