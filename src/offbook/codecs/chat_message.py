"""Messages in the OpenAI chat format as declared types, with the call ids and data URLs that other protocols need."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from msgspec import Struct

from offbook.codecs.base import convert_request
from offbook.errors import RequestError
from offbook.messages import Content, JsonObject, Request, ToolCall

RAW_ARGUMENTS = "raw_arguments"
"""The field for arguments that are not a JSON object, in protocols that require an object."""


class ChatFunction(Struct):
    name: str = ""
    arguments: str | dict[str, Any] | None = None


class GoogleContent(Struct):
    thought_signature: str | None = None


class ExtraContent(Struct):
    google: GoogleContent | None = None


class ChatToolCall(Struct):
    """A tool call of an assistant message. Google's OpenAI-compatible API keeps its signatures in `extra_content`."""

    function: ChatFunction
    id: str | None = None
    extra_content: ExtraContent | None = None

    def to_tool_call(self) -> ToolCall:
        arguments = self.function.arguments
        if isinstance(arguments, dict):
            return ToolCall(self.function.name, arguments, self.id)
        return ToolCall.parse(self.function.name, arguments or "", id=self.id)


class ChatMessage(Struct):
    """One message of a request."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


class FunctionSpec(Struct):
    """The function of a tool that a request declares."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def schema(self) -> JsonObject:
        """The schema of the arguments, for protocols that require one."""
        return self.parameters or {"type": "object", "properties": {}}


class CalledFunction(Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class CalledTool(Struct):
    """A tool call of an assistant message, in protocols that require its name."""

    function: CalledFunction
    id: str | None = None


SYSTEM_ROLES = ("system", "developer")
EncodeMessage: TypeAlias = Callable[[JsonObject], JsonObject]


def encode_turns(messages: Iterable[JsonObject], *, message: EncodeMessage, result: EncodeMessage) -> list[JsonObject]:
    """Encode all but the system messages, each by its function.

    Adjacent tool messages become one user message, as the APIs require that have results in the content of messages.
    """
    encoded: list[JsonObject] = []
    spoken = (each for each in messages if each.get("role") not in SYSTEM_ROLES)
    for is_tool, group in groupby(spoken, key=lambda each: each.get("role") == "tool"):
        if is_tool:
            encoded.append({"role": "user", "content": [result(each) for each in group]})
        else:
            encoded.extend(message(each) for each in group)
    return encoded


def read_messages(messages: Sequence[JsonObject]) -> list[ChatMessage]:
    """Convert the messages of a request.

    Raises:
        RequestError: a message is not in the OpenAI chat format.
    """
    return convert_request(messages, list[ChatMessage])


class SinglePrompt(Struct, frozen=True):
    """A request that is a single question. `fields` are extra fields of its message.

    They are part of the conversation, not options of the request.
    """

    content: Content
    system: str = ""
    fields: JsonObject = {}

    def to_messages(self) -> tuple[JsonObject, ...]:
        system: list[JsonObject] = [{"role": "system", "content": self.system}] if self.system else []
        return (*system, {"role": "user", "content": self.content, **self.fields})


def read_prompt(request: Request, *, fields: Sequence[str]) -> SinglePrompt:
    """Return the single question of a request, with the given `fields` of its message.

    Raises:
        RequestError: the request has tools, or more than a system prompt and one user message.
    """
    messages = read_messages(request.messages)
    systems, last = messages[:-1], messages[-1] if messages else None
    is_system = len(systems) <= 1 and all(each.role == "system" and isinstance(each.content, str) for each in systems)
    if last is None or last.role != "user" or not is_system or request.tools:
        hint = "use the chat protocol of the vendor"
        raise RequestError("a prompt is one message of the user, without tools", source="messages", hint=hint)
    message = request.messages[-1]
    found = {name: message[name] for name in fields if name in message}
    return SinglePrompt(last.content, str(systems[0].content) if systems else "", found)


def arguments_object(call: ToolCall) -> JsonObject:
    """Return the arguments as an object. Text that is not a JSON object becomes the field `raw_arguments`."""
    return call.args if call.raw_arguments is None else {RAW_ARGUMENTS: call.raw_arguments}


class CallIds:
    """Numbers calls in order, and finds the call that a result belongs to."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def of_call(self, tool: str, *, given: str | None = None) -> str:
        """Return the id of the next call: `given`, or `call_{n}`."""
        call_id = given or f"call_{self._count}"
        self._count += 1
        self._open.append((call_id, tool))
        return call_id

    def of_result(self, tool: str | None, *, given: str | None = None) -> str:
        """Return the id of the call that a result belongs to.

        It is `given`, else the tool's first call without a result, else the first call of any tool without a result. A
        result without a call gets a new number.
        """
        answered = self._answered(tool, given)
        if answered is not None:
            self._open.remove(answered)
            return answered[0]
        if given:
            return given
        self._count += 1
        return f"call_{self._count - 1}"

    def _answered(self, tool: str | None, given: str | None) -> tuple[str, str] | None:
        if given:
            return next((call for call in self._open if call[0] == given), None)
        first = self._open[0] if self._open else None
        return next((call for call in self._open if call[1] == tool), first)


class DataUrl(Struct, frozen=True):
    """A media type and base64 content."""

    media_type: str
    data: str

    def __str__(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


def parse_data_url(url: str) -> DataUrl | None:
    """Return the URL's media type and content, or None if it is not a base64 `data:` URL."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return DataUrl(head.removeprefix("data:").partition(";")[0], data)
