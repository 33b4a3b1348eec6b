"""OpenAI responses: the items of an answer, each a message, a piece of reasoning or a tool call."""

from msgspec import Raw, Struct

from offbook.codecs.parsing import decode_answer
from offbook.messages import JsonObject, ReasoningDelta, StreamDelta, TextDelta, ToolCall, ToolCallDelta

PARAGRAPH = "\n\n"
"""What stands between the parts of one summary."""
_KINDS = ("message", "reasoning", "function_call")


class _Typed(Struct):
    type: str


class _Part(Struct):
    text: str | None = None
    refusal: str | None = None


class OutputItem(Struct):
    """Any item; which fields are set depends on its type."""

    type: str
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None

    def said(self) -> str:
        """The text of a message, a refusal included."""
        parts = (self.content or ()) if self.type == "message" else ()
        return "".join(part.text or part.refusal or "" for part in parts)

    def thought(self) -> str:
        """The text of reasoning: its summary, and where the model shows it, itself."""
        parts = (*(self.summary or ()), *(self.content or ())) if self.type == "reasoning" else ()
        return PARAGRAPH.join(part.text for part in parts if part.text)

    def to_tool_call(self) -> ToolCall:
        return ToolCall.parse(self.name or "", self.arguments or "", id=self.call_id)


def read_item(data: Raw) -> OutputItem:
    """The item; of a kind that is none of ours, such as a search on the vendor's servers, nothing but its type."""
    kind = decode_answer(bytes(data), _Typed).type
    return decode_answer(bytes(data), OutputItem) if kind in _KINDS else OutputItem(kind)


def started_item(index: int, first: StreamDelta, id: str) -> JsonObject:
    """The item at `index` of an answer, which begins with `first`, before it has content."""
    match first:
        case TextDelta():
            item = {"type": "message", "id": f"msg_{id}_{index}", "role": "assistant", "content": []}
            return item | {"status": "in_progress"}
        case ReasoningDelta():
            return {"type": "reasoning", "id": f"rs_{id}_{index}", "summary": []}
        case ToolCallDelta(position, _, call_id, tool):
            call = {"call_id": call_id or f"call_{id}_{position}", "name": tool or "", "arguments": ""}
            return {"type": "function_call", "id": f"fc_{id}_{index}"} | call | {"status": "in_progress"}


def finished_item(index: int, first: StreamDelta, text: str, id: str) -> JsonObject:
    """The item with all of its text: what is said or thought, or the arguments of a call."""
    item = started_item(index, first, id)
    match first:
        case TextDelta():
            return item | {"content": [text_part(text)], "status": "completed"}
        case ReasoningDelta():
            return item | {"summary": [summary_part(text)]}
        case ToolCallDelta():
            return item | {"arguments": text, "status": "completed"}


def piece_of(delta: StreamDelta) -> str:
    """The text that the delta adds to its item."""
    return delta.arguments if isinstance(delta, ToolCallDelta) else delta.text


def text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def summary_part(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}
