"""OpenAI responses: requests."""

from typing import Any

from msgspec import Struct

from offbook.codecs.codec import WireRequest
from offbook.codecs.openai_responses.conversation import decode_conversation, encode_conversation
from offbook.codecs.openai_responses.tools import decode_choice, decode_tool, encode_choice, encode_tool
from offbook.codecs.parsing import convert_request, without_none
from offbook.messages import JsonObject, Request

PATH = "/responses"


class _Body(Struct):
    input: str | list[dict[str, Any]]
    model: str
    instructions: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None


def encode_request(request: Request) -> WireRequest:
    instructions, items = encode_conversation(request.messages)
    fields: JsonObject = {
        "model": request.model,
        "instructions": instructions,
        "input": items,
        "temperature": request.temperature,
        "max_output_tokens": request.max_tokens,
        "tools": [encode_tool(tool) for tool in request.tools] or None,
        "tool_choice": encode_choice(request.tool_choice),
        "stream": True if request.stream else None,
    }
    return WireRequest(PATH, without_none(fields) | dict(request.extra))


def decode_request(wire: WireRequest) -> Request:
    """The request, with what the server would have to remember (`previous_response_id`, say) left in `extra`."""
    body = convert_request(wire.body, _Body)
    return Request(
        messages=tuple(decode_conversation(body.instructions, body.input)),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_output_tokens,
        tools=tuple(decode_tool(tool) for tool in body.tools or ()),
        tool_choice=decode_choice(body.tool_choice),
        extra={name: value for name, value in wire.body.items() if name not in _Body.__struct_fields__},
        stream=bool(body.stream),
    )
