"""Model and tool calls in spans that follow OpenInference's conventions, such as those of Phoenix."""

from __future__ import annotations

import re
from typing import Any

from offbook.codecs.base import WireRequest
from offbook.errors import RequestError
from offbook.messages import JsonObject, Request, Response, ToolCall, Usage
from offbook.vendors import CODEC_NAMES, codec_of
from offbook.wire.convert.genai_spans import tool_run
from offbook.wire.convert.spans import Span, json_value
from offbook.wire.convert.trace import TracedModelCall, TracedToolCall, Unmapped

_KIND = "openinference.span.kind"
_ENCLOSING = frozenset(("CHAIN", "AGENT", "WORKFLOW"))
_PROVIDERS = {"anthropic": "anthropic", "google": "google", "vertexai": "google", "ollama": "ollama"}
_STEP = re.compile(r"[^.]+")


def is_span(span: Span) -> bool:
    """Return whether a span follows these conventions."""
    return _KIND in span.attributes


def read_span(span: Span) -> TracedModelCall | TracedToolCall | Unmapped | None:
    """Return the call of a span, the reason why it cannot be mapped, or None for a span that only encloses calls."""
    place = f"span {span.name!r} ({span.id[1]})"
    kind = str(span.attributes[_KIND]).upper()
    if kind in _ENCLOSING:
        return None
    if kind == "TOOL":
        arguments = json_value(span.attributes.get("input.value", span.attributes.get("tool.parameters")))
        tool = str(span.attributes.get("tool.name") or "")
        return tool_run(span, tool, arguments, json_value(span.attributes.get("output.value")), place)
    if kind != "LLM":
        return Unmapped(place, f"a span of the kind {kind} has no place in a recording")
    if span.error:
        return Unmapped(place, f"the call failed: {span.error}")
    try:
        return _model_call(span, place)
    except (TypeError, KeyError, AttributeError, ValueError, RequestError) as error:
        return Unmapped(place, f"its messages are not as the conventions have them: {error!r}")


def _model_call(span: Span, place: str) -> TracedModelCall | Unmapped:
    llm = _nested(span.attributes, "llm.")
    provider = _provider(span, llm)
    request = _sent_request(span, provider) or _described_request(llm)
    answers = _items(llm.get("output_messages"))
    if not request.messages or not answers:
        return Unmapped(place, f"the span has no {'answer' if request.messages else 'messages'}")
    answer, counts = _message(answers[0]["message"]), llm.get("token_count") or {}
    calls = (call["function"] | {"id": call.get("id")} for call in answer.get("tool_calls", ()))
    usage = Usage.of(
        int(counts.get("prompt") or 0) if not isinstance(counts.get("prompt"), dict) else 0,
        int(counts.get("completion") or 0),
        cached=int((counts.get("prompt_details") or {}).get("cache_read") or 0),
        reasoning=int((counts.get("completion_details") or {}).get("reasoning") or 0),
    )
    response = Response(
        answer.get("content") or "",
        str(llm.get("model_name") or ""),
        usage=usage,
        finish_reason=llm.get("finish_reason") or ("tool_calls" if "tool_calls" in answer else "stop"),
        tool_calls=tuple(ToolCall.parse(call["name"], call.get("arguments", ""), id=call["id"]) for call in calls),
    )
    return TracedModelCall(
        place=place,
        provider=provider,
        request=request,
        response=response,
        latency_ms=span.latency_ms,
        recorded_at=span.recorded_at,
    )


def _provider(span: Span, llm: JsonObject) -> str:
    system = str(llm.get("system") or llm.get("provider") or "")
    if system == "openai" and "input" in _sent_body(span):
        return "openai_responses"
    return _PROVIDERS.get(system, "openai")


def _sent_body(span: Span) -> JsonObject:
    body = json_value(span.attributes.get("input.value"))
    return body if isinstance(body, dict) else {}


def _sent_request(span: Span, provider: str) -> Request | None:
    """Return the client's request, if the instrumentation kept it; else None."""
    body = _sent_body(span)
    if not body.keys() & {"messages", "input", "contents"} or provider == "google":
        return None
    return codec_of(CODEC_NAMES[provider]).decode_request(WireRequest("", body))


def _described_request(llm: JsonObject) -> Request:
    parameters = json_value(llm.get("invocation_parameters")) or {}
    parameters = dict(parameters) if isinstance(parameters, dict) else {}
    model = str(parameters.pop("model", None) or llm.get("model_name") or "")
    tools = [json_value(each["tool"]["json_schema"]) for each in _items(llm.get("tools"))]
    return Request(
        tuple(_message(each["message"]) for each in _items(llm.get("input_messages"))),
        model,
        temperature=parameters.pop("temperature", None),
        max_tokens=parameters.pop("max_tokens", None),
        tools=tuple(tools),
        tool_choice=parameters.pop("tool_choice", None),
        stream=bool(parameters.pop("stream", False)),
        extra=parameters,
    )


def _message(message: JsonObject) -> JsonObject:
    plain: JsonObject = {"role": message["role"], "content": _content(message)}
    if calls := [_call(each["tool_call"]) for each in _items(message.get("tool_calls"))]:
        plain["tool_calls"] = calls
    return plain | ({"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {})


def _content(message: JsonObject) -> Any:
    if "contents" not in message:
        return message.get("content")
    parts = [each["message_content"] for each in _items(message["contents"])]
    if other := sorted({str(part["type"]) for part in parts} - {"text"}):
        raise ValueError(f"parts of the type {', '.join(other)}")
    return "".join(part["text"] for part in parts)


def _call(call: JsonObject) -> JsonObject:
    function = call["function"]
    named = {"name": function["name"], "arguments": function.get("arguments", "{}")}
    return {"id": call.get("id"), "type": "function", "function": named}


def _nested(attributes: JsonObject, prefix: str) -> JsonObject:
    """Return attributes like `llm.input_messages.0.message.role` as objects in objects."""
    root: JsonObject = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            *path, last = _STEP.findall(name.removeprefix(prefix))
            place = root
            for step in path:
                inner = place.setdefault(step, {})
                place = inner if isinstance(inner, dict) else place.setdefault(f"{step}.", {})
            place[last] = value
    return root


def _items(numbered: Any) -> list[Any]:
    """Return the values of an object with numeric names, in order."""
    if not isinstance(numbered, dict):
        return []
    return [numbered[name] for name in sorted(numbered, key=lambda name: (len(name), name)) if name.isdigit()]
