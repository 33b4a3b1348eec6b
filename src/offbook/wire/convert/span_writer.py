"""Writes a recording as spans, in OTLP as JSON: by OpenTelemetry's conventions for models, or OpenInference's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

import orjson
from msgspec import UNSET, UnsetType

from offbook.codecs.openai_chat import text_of
from offbook.errors import RequestError
from offbook.messages import JsonObject, Request, Usage
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_mcp_key, short_key, tool_key
from offbook.vendors import otel_name
from offbook.wire.convert.har import unwritable_reason
from offbook.wire.convert.spans import json_value
from offbook.wire.convert.trace import Unmapped, in_order, model_request, provider_of

SpanKind = Literal["otel", "openinference"]
_SYSTEMS = {"google": "vertexai", "openai_responses": "openai"}
_NAMED_EXTRA = ("top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")
_CLIENT, _INTERNAL, _ERROR = 3, 1, 2


def write_spans(document: Document, *, kind: SpanKind) -> tuple[bytes, list[Unmapped]]:
    """Return a recording as spans in one trace, and the exchanges that spans cannot express."""
    spans, unmapped = list[JsonObject](), list[Unmapped]()
    describe = _otel_model if kind == "otel" else _openinference_model
    for key, exchange in in_order(document):
        try:
            spans.append(_model_span(exchange, describe))
        except RequestError as error:
            unmapped.append(Unmapped(short_key(key), error.reason))
    describe_tool = _otel_tool if kind == "otel" else _openinference_tool
    for tool, call in each_exchange(document.tools):
        if is_mcp_key(tool):
            unmapped.append(Unmapped(tool, "not a call of a tool"))
        elif isinstance(call.arguments, UnsetType):
            unmapped.append(Unmapped(tool_key(tool), "it does not say which arguments it answers"))
        else:
            spans.append(_tool_span(tool, call, describe_tool))
    trace_id = sha256(orjson.dumps(spans)).hexdigest()[:32]
    for number, span in enumerate(spans, 1):
        span["traceId"] = trace_id
        span["spanId"] = f"{trace_id[:8]}{number:08x}"  # in order, also where moments are not known
    resource = {"attributes": [_attribute("service.name", "offbook")]}
    scope_spans = [{"scope": {"name": "offbook"}, "spans": spans}]
    exported = {"resourceSpans": [{"resource": resource, "scopeSpans": scope_spans}]}
    return orjson.dumps(exported) + b"\n", unmapped


def _model_span(exchange: Exchange, describe: Callable[[Request, Exchange, str], JsonObject]) -> JsonObject:
    """Return the span of a model call.

    Raises:
        RequestError: spans cannot express it.
    """
    reason, fields = unwritable_reason(exchange), exchange.request_fields()
    if reason or fields is None:
        raise RequestError(reason or "not a call of a model")
    if exchange.fault is not None:
        raise RequestError(f"a call that failed ({exchange.fault.type})")
    provider = provider_of(exchange)
    request = model_request(fields, exchange, provider)
    return {
        "name": f"chat {request.model}",
        "kind": _CLIENT,
        **_times(exchange.recorded_at, exchange.latency_ms),
        "attributes": _attributes(describe(request, exchange, provider)),
    }


def _tool_span(tool: str, call: ToolExchange, describe: Callable[[str, ToolExchange], JsonObject]) -> JsonObject:
    failure = "" if call.error is None else call.error.message or call.error.type
    return {
        "name": f"execute_tool {tool}",
        "kind": _INTERNAL,
        **_times(call.recorded_at, call.latency_ms),
        "attributes": _attributes(describe(tool, call)),
        **({"status": {"code": _ERROR, "message": failure}} if failure else {}),
    }


def _times(recorded_at: str | None, latency_ms: float) -> JsonObject:
    try:
        ended = datetime.fromisoformat(recorded_at or "")
    except ValueError:
        ended = datetime.fromtimestamp(0, UTC)
    ended_ns = round(ended.timestamp() * 1e6) * 1000
    started_ns = max(0, ended_ns - round(latency_ms * 1e6))
    return {"startTimeUnixNano": str(started_ns), "endTimeUnixNano": str(ended_ns)}


def _otel_model(request: Request, exchange: Exchange, provider: str) -> JsonObject:
    system, messages = _split_system(request)
    usage = exchange.usage or Usage()
    extra = {f"gen_ai.request.{name}": request.extra[name] for name in _NAMED_EXTRA if name in request.extra}
    stop = request.extra.get("stop")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": otel_name(provider),
        "openai.api.type": "responses" if provider == "openai_responses" else None,
        "gen_ai.request.model": request.model,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.stream": True if request.stream else None,
        **extra,
        "gen_ai.request.stop_sequences": ([stop] if isinstance(stop, str) else stop),
        "gen_ai.response.model": exchange.model,
        "gen_ai.response.finish_reasons": [exchange.finish_reason] if exchange.finish_reason else None,
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.system_instructions": _json([_text_part(system)]) if system else None,
        "gen_ai.input.messages": _json([_parts_message(message) for message in messages]),
        "gen_ai.output.messages": _json([_answer_message(exchange)]),
        "gen_ai.tool.definitions": _json([{"type": "function", **each["function"]} for each in request.tools])
        if request.tools
        else None,
    }


def _split_system(request: Request) -> tuple[str, list[JsonObject]]:
    messages = list(request.messages)
    if messages and messages[0]["role"] == "system" and isinstance(messages[0].get("content"), str):
        return messages[0]["content"], messages[1:]
    return "", messages


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "content": text}


def _parts_message(message: JsonObject) -> JsonObject:
    if message["role"] == "tool":
        answer = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": _text_of(message)}
        return {"role": "tool", "parts": [answer]}
    parts = [_text_part(text)] if (text := _text_of(message)) else []
    if reasoning := message.get("reasoning_content"):
        parts.append({"type": "reasoning", "content": reasoning})
    parts += [_call_part(call["id"], **call["function"]) for call in message.get("tool_calls") or ()]
    return {"role": message["role"], "parts": parts}


def _text_of(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, list) and any(part.get("type") != "text" for part in content):
        raise RequestError(f"parts of a message that are not text ({message['role']})")
    return text_of(content)


def _call_part(call_id: str | None, *, name: str, arguments: Any) -> JsonObject:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": json_value(arguments)}


def _answer_message(exchange: Exchange) -> JsonObject:
    parts = [_text_part(exchange.content)] if exchange.content else []
    if exchange.reasoning:
        parts.append({"type": "reasoning", "content": exchange.reasoning})
    parts += [
        _call_part(call.id or None, name=call.name, arguments=call.arguments) for call in exchange.tool_calls or ()
    ]
    return {"role": "assistant", "parts": parts, "finish_reason": exchange.finish_reason}


def _otel_tool(tool: str, call: ToolExchange) -> JsonObject:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": _json(call.arguments),
        "gen_ai.tool.call.result": None if call.result is UNSET else _json(call.result),
        "error.type": None if call.error is None else call.error.type,
    }


def _openinference_model(request: Request, exchange: Exchange, provider: str) -> JsonObject:
    usage = exchange.usage or Usage()
    parameters = {"temperature": request.temperature, "max_tokens": request.max_tokens, **request.extra}
    parameters |= {"tool_choice": request.tool_choice, "stream": request.stream or None}
    given = {name: value for name, value in parameters.items() if value is not None}
    answer: JsonObject = {"role": "assistant", "content": exchange.content or None}
    answer["tool_calls"] = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in exchange.tool_calls or ()
    ]
    return {
        "openinference.span.kind": "LLM",
        "llm.system": _SYSTEMS.get(provider, provider),
        "llm.model_name": request.model,
        "llm.invocation_parameters": _json({"model": request.model, **given}),
        **dict(_numbered_messages("llm.input_messages", request.messages)),
        **dict(_numbered_messages("llm.output_messages", [answer])),
        **{f"llm.tools.{number}.tool.json_schema": _json(each) for number, each in enumerate(request.tools)},
        "llm.finish_reason": exchange.finish_reason,
        "llm.token_count.prompt": usage.prompt_tokens,
        "llm.token_count.completion": usage.completion_tokens,
        "llm.token_count.total": usage.prompt_tokens + usage.completion_tokens,
        "llm.token_count.prompt_details.cache_read": usage.cached_tokens or None,
    }


def _numbered_messages(prefix: str, messages: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of messages, with their positions in the names."""
    for number, message in enumerate(messages):
        place = f"{prefix}.{number}.message"
        yield f"{place}.role", message["role"]
        yield f"{place}.content", _text_of(message) or None
        yield f"{place}.tool_call_id", message.get("tool_call_id")
        for index, call in enumerate(message.get("tool_calls") or ()):
            function, arguments = call["function"], call["function"]["arguments"]
            yield f"{place}.tool_calls.{index}.tool_call.id", call.get("id")
            yield f"{place}.tool_calls.{index}.tool_call.function.name", function["name"]
            text = arguments if isinstance(arguments, str) else _json(arguments)
            yield f"{place}.tool_calls.{index}.tool_call.function.arguments", text


def _openinference_tool(tool: str, call: ToolExchange) -> JsonObject:
    return {
        "openinference.span.kind": "TOOL",
        "tool.name": tool,
        "input.value": _json(call.arguments),
        "input.mime_type": "application/json",
        "output.value": None if call.result is UNSET else _json(call.result),
        "output.mime_type": None if call.result is UNSET else "application/json",
    }


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _attributes(values: JsonObject) -> list[JsonObject]:
    return [_attribute(name, value) for name, value in values.items() if value is not None]


def _attribute(name: str, value: Any) -> JsonObject:
    return {"key": name, "value": _otlp_value(value)}


def _otlp_value(value: Any) -> JsonObject:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_otlp_value(each) for each in value]}}
    return {"stringValue": str(value)}
