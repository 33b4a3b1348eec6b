"""Model and tool calls in spans that follow OpenTelemetry's conventions for generative AI.

Messages are attributes of the span (`gen_ai.input.messages`) or of its event with the details of the operation, or, in
older versions, an event each (`gen_ai.user.message`, `gen_ai.choice`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import UNSET

from offbook.messages import JsonObject, Request, Response, ToolCall, Usage
from offbook.recording.format.exchange import RecordedError, ToolExchange
from offbook.wire.convert.spans import Span, json_value
from offbook.wire.convert.trace import TracedModelCall, TracedToolCall, Unmapped

_DETAILS = "gen_ai.client.inference.operation.details"
_MODEL_OPERATIONS = frozenset(("chat", "generate_content", "text_completion"))
_OLD_ROLES = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_PROVIDERS = (("anthropic", "anthropic"), ("gcp", "google"), ("gemini", "google"), ("ollama", "ollama"))
_FINISH_REASONS = {"tool_call": "tool_calls", "error": None}
_EXTRA = ("top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")


def read_span(span: Span) -> TracedModelCall | TracedToolCall | Unmapped | None:
    """Return the call of a span, the reason why it cannot be mapped, or None for a span that only encloses calls."""
    place = f"span {span.name!r} ({span.id[1]})"
    fields = dict(span.attributes)
    for event in span.events:
        if event.name == _DETAILS:
            fields = event.fields | fields
    operation = fields.get("gen_ai.operation.name")
    if operation == "execute_tool":
        arguments = json_value(fields.get("gen_ai.tool.call.arguments"))
        result = json_value(fields.get("gen_ai.tool.call.result"))
        return tool_run(span, str(fields.get("gen_ai.tool.name") or ""), arguments, result, place)
    if operation in _MODEL_OPERATIONS:
        return _model_call(span, fields, place)
    if operation in (None, "invoke_agent", "create_agent", "invoke_workflow"):
        return None
    return Unmapped(place, f"the operation {operation} has no place in a recording")


def _model_call(span: Span, fields: JsonObject, place: str) -> TracedModelCall | Unmapped:
    if span.error:
        return Unmapped(place, f"the call failed: {span.error}")
    try:
        asked, answer = _messages(span, fields)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        return Unmapped(place, f"its messages are not as the conventions have them: {error!r}")
    if not asked or answer is None:
        missing = "answer" if asked else "messages"
        return Unmapped(place, f"the span has no {missing}: capture the content of messages")
    extra = {name: fields[f"gen_ai.request.{name}"] for name in _EXTRA if f"gen_ai.request.{name}" in fields}
    if stop := fields.get("gen_ai.request.stop_sequences"):
        extra["stop"] = list(stop)
    request = Request(
        tuple(asked),
        str(fields.get("gen_ai.request.model") or ""),
        temperature=fields.get("gen_ai.request.temperature"),
        max_tokens=fields.get("gen_ai.request.max_tokens"),
        tools=tuple(_tools(json_value(fields.get("gen_ai.tool.definitions")))),
        extra=extra,
        stream=fields.get("gen_ai.request.stream") is True,
    )
    return TracedModelCall(
        place=place,
        provider=_provider(fields),
        request=request,
        response=_response(answer, fields),
        latency_ms=span.latency_ms,
        recorded_at=span.recorded_at,
    )


def _provider(fields: JsonObject) -> str:
    """Return our name of a provider. Unknown providers mostly speak OpenAI's protocol."""
    name = str(fields.get("gen_ai.provider.name") or fields.get("gen_ai.system") or "")
    if fields.get("openai.api.type") == "responses":
        return "openai_responses"
    return next((ours for start, ours in _PROVIDERS if name.startswith(start)), "openai")


def _messages(span: Span, fields: JsonObject) -> tuple[list[JsonObject], JsonObject | None]:
    """Return the messages of the request, and the first one of the answer."""
    if "gen_ai.input.messages" not in fields:
        return _old_messages(span)
    system = json_value(fields.get("gen_ai.system_instructions"))
    asked = [{"role": "system", "content": _text(system)}] if system else []
    for message in json_value(fields["gen_ai.input.messages"]):
        asked += _plain_messages(message)
    answers = json_value(fields.get("gen_ai.output.messages")) or []
    if not answers:
        return asked, None
    (plain,) = _plain_messages(answers[0])
    return asked, plain | {"finish_reason": answers[0].get("finish_reason")}


def _plain_messages(message: JsonObject) -> Iterator[JsonObject]:
    """Yield a message of parts in the shape of OpenAI's chat, where each tool result is a separate message."""
    parts = message["parts"]
    results = [part for part in parts if part["type"] == "tool_call_response"]
    for part in results:
        content = part.get("response", part.get("result"))
        text = content if isinstance(content, str) else orjson.dumps(content).decode()
        yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    if results:
        return
    plain: JsonObject = {"role": message["role"], "content": _text(parts) or None}
    calls = [_chat_call(part) for part in parts if part["type"] == "tool_call"]
    reasoning = "".join(part["content"] for part in parts if part["type"] == "reasoning")
    known = {"text", "tool_call", "reasoning"}
    if other := sorted({part["type"] for part in parts} - known):
        raise ValueError(f"parts of the type {', '.join(other)}")
    yield plain | ({"tool_calls": calls} if calls else {}) | ({"reasoning_content": reasoning} if reasoning else {})


def _text(parts: Any) -> str:
    return "".join(part["content"] for part in parts if part["type"] == "text")


def _chat_call(part: JsonObject) -> JsonObject:
    arguments = part.get("arguments")
    text = arguments if isinstance(arguments, str) else orjson.dumps({} if arguments is None else arguments).decode()
    return {"id": part.get("id"), "type": "function", "function": {"name": part["name"], "arguments": text}}


def _old_messages(span: Span) -> tuple[list[JsonObject], JsonObject | None]:
    asked, answer = list[JsonObject](), None
    for event in span.events:
        role, body = _OLD_ROLES.get(event.name), event.fields
        if role is not None:
            asked.append(_old_message(role, body))
        elif event.name == "gen_ai.choice" and body.get("index", 0) == 0:
            answer = _old_message("assistant", json_value(body["message"])) | {
                "finish_reason": body.get("finish_reason")
            }
    return asked, answer


def _old_message(role: str, body: JsonObject) -> JsonObject:
    calls = json_value(body.get("tool_calls"))
    content = body.get("content")
    if content is None and not calls:
        raise ValueError("a message without content")
    message: JsonObject = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
    return message | ({"tool_call_id": body.get("id")} if role == "tool" else {})


def _tools(definitions: Any) -> Iterator[JsonObject]:
    for definition in definitions or ():
        function = definition.get("function") or {
            name: definition[name] for name in ("name", "description", "parameters") if definition.get(name) is not None
        }
        yield {"type": "function", "function": function}


def _response(answer: JsonObject, fields: JsonObject) -> Response:
    reasons = fields.get("gen_ai.response.finish_reasons") or [answer.get("finish_reason")]
    reason = str(reasons[0]) if reasons[0] else None
    calls = (call["function"] | {"id": call.get("id")} for call in answer.get("tool_calls") or ())
    return Response(
        answer.get("content") or "",
        str(fields.get("gen_ai.response.model") or ""),
        usage=Usage.of(
            int(fields.get("gen_ai.usage.input_tokens") or 0),
            int(fields.get("gen_ai.usage.output_tokens") or 0),
            cached=int(fields.get("gen_ai.usage.cache_read.input_tokens") or 0),
        ),
        finish_reason=_FINISH_REASONS.get(reason or "", reason),
        tool_calls=tuple(ToolCall.parse(call["name"], call.get("arguments", ""), id=call["id"]) for call in calls),
        reasoning=answer.get("reasoning_content"),
    )


def tool_run(span: Span, tool: str, arguments: Any, result: Any, place: str) -> TracedToolCall | Unmapped:
    """Return the call of a tool, or why it cannot be mapped."""
    if not tool:
        return Unmapped(place, "the span does not name its tool")
    if not isinstance(arguments, dict):
        return Unmapped(place, "the span has no arguments of the tool: capture the content of messages")
    if result is None and not span.error:
        return Unmapped(place, "the span has no result of the tool: capture the content of messages")
    exchange = ToolExchange(
        arguments=arguments,
        result=UNSET if span.error else result,
        error=RecordedError("RuntimeError", span.error) if span.error else None,
        latency_ms=span.latency_ms,
        recorded_at=span.recorded_at,
    )
    return TracedToolCall(place=place, tool=tool, exchange=exchange)
