"""The base of all faults: their declaration, their text form, their effect on a model call, and the crash."""

from __future__ import annotations

import json
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sized
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

import msgspec
import orjson
from msgspec import NODEFAULT, Meta, Struct, StructMeta
from msgspec.structs import FieldInfo
from msgspec.structs import fields as struct_fields

from offbook.clock import MAX_WAIT_MS
from offbook.messages import Reply, Request

if TYPE_CHECKING:
    from offbook.clock import Clock


Milliseconds: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_WAIT_MS)]
MAX_COUNT = 1_000_000_000
"""More calls, or pieces of a stream, than any run has."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_PLAIN = re.compile(r"[\w./+-]+")
_NAME = re.compile(r'([A-Za-z_][^\s="]*)=')
_SPACE = re.compile(r"\s+")
_TEXT = (str, str | None)
_EXACT_INTEGER = 2.0**53
_scan_json = json.JSONDecoder().raw_decode


def join_words(words: Iterable[tuple[str, str]]) -> str:
    """Join words to one line, which `split_words` splits."""
    return " ".join(f"{name}={value}" if name else value for name, value in words)


def split_words(line: str) -> Iterator[tuple[str, str]]:
    """Yield each word of a line: its name, or an empty str, and the text of its value."""
    at = 0
    line = line.strip()
    while at < len(line):
        name = _NAME.match(line, at)
        start = name.end() if name else at
        end = _value_end(line, start)
        yield name[1] if name else "", line[start:end]
        space = _SPACE.match(line, end)
        at = space.end() if space else end


def _value_end(line: str, start: int) -> int:
    """Return the end of the value at `start`: after its JSON in quotes or brackets, else before a space."""
    space = _SPACE.search(line, start)
    end = space.start() if space else len(line)
    if line[start : start + 1] not in ('"', "{", "["):
        return end
    try:
        json_end = _scan_json(line, start)[1]
    except (ValueError, RecursionError):  # not JSON, or a number with thousands of digits
        return end
    return json_end if json_end == len(line) or line[json_end].isspace() else end


def parse_value(word: str, kind: Any) -> Any:
    """Parse the value of a field of type `kind`."""
    if _is_text(kind) and not word.startswith('"'):
        return word
    try:
        return msgspec.json.decode(word)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return word


def _is_text(kind: Any) -> bool:
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind) in _TEXT


def field_words(value: Struct) -> Iterator[tuple[str, str]]:
    """Yield a word for each field of `value` that differs from its default."""
    for info in fields_of(type(value)):
        field = getattr(value, info.name)
        if field != _default(info):
            yield from _words_of_field(info, field)


def _words_of_field(info: FieldInfo, value: Any) -> Iterator[tuple[str, str]]:
    if get_origin(info.type) is dict:
        yield from _entry_words(info, value)
    else:
        yield info.encode_name, _format_value(value, info.type)


@cache
def fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a class, cached because deriving them from annotations is slow."""
    return struct_fields(kind)


def _entry_words(info: FieldInfo, entries: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if all(_PLAIN.fullmatch(name) for name in entries):
        kind = get_args(info.type)[1]
        for name, entry in entries.items():
            yield f"{info.encode_name}.{name}", _format_value(entry, kind)
    else:
        yield info.encode_name, _json(entries)


def _format_value(value: Any, kind: Any) -> str:
    """Format a value for `parse_value`."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and parse_value(value, kind) == value:
        return value
    if kind is not Any and isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGER:
        return str(int(value))
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _default(info: FieldInfo) -> Any:
    return info.default if info.default_factory is NODEFAULT else info.default_factory()


_EXAMPLES: dict[str, Any] = {
    "status_code": 503,
    "headers": {"retry-after": "30"},
    "after_ms": 5000,
    "after_chunks": 3,
    "tool": "search",
    "step": "answer",
    "call": 2,
}
"""Values of fields in examples, where their defaults show little."""


def _example_value(info: FieldInfo) -> Any:
    if info.encode_name in _EXAMPLES:
        return _EXAMPLES[info.encode_name]
    return get_args(info.type)[0] if info.required else _default(info)


UNANSWERED_MS = 60_000.0
"""The silence of a variant: longer than any sensible timeout."""


class _FaultMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


FaultTrait: TypeAlias = Literal[
    "breaks_result",
    "may_be_true",
    "cuts_answer",
    "empties_answer",
    "reads_like_answer",
    "asks_for_more",
    "wants_less",
    "loses_answer",
    "holds_back",
    "lies",
]
"""The properties of a fault that an exploration needs to judge a run.

`breaks_result`: the result of the tool is broken or missing. `may_be_true`: the result can be true. `cuts_answer`,
`empties_answer`: a part, or nothing, of the model's answer arrives. `reads_like_answer`: only a model can tell that it
is no answer. `asks_for_more`: the model requests further tool calls, which are no defect of the agent. `wants_less`:
the agent has to shorten its conversation. `loses_answer`: the caller cannot know whether the call was done, or is told
to do it twice; a blind repetition repeats its effects. `holds_back`: the caller has to wait. `lies`: the result is
plausible, and not true.
"""

FaultFamily: TypeAlias = Literal["model", "stream", "tool", "crash", "order"]
"""The failing part: a model call, a stream midway, a tool, the agent's process, or the order of events.

An exploration with a budget tries each family once before it repeats one.
"""


class DeclaredFault(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, metaclass=_FaultMeta):
    """A way to fail, declared as `{"type": …}` with the fields of its class."""

    is_for_tools: ClassVar[bool] = False
    family: ClassVar[FaultFamily] = "model"
    fits_any_call: ClassVar[bool] = False
    """Whether it can fire at both model and tool calls."""
    traits: ClassVar[frozenset[FaultTrait]] = frozenset()
    breaks_response: ClassVar[bool] = False
    """Whether the answer is made but does not arrive as one: it stays in the recording for the caller's retry."""
    mark_kind: ClassVar[str] = "fault"
    """The prefix of the mark that this fault's texts carry in an exploration."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        """Return the forms of this fault that an exploration tries; none by default."""
        return ()

    @property
    def type(self) -> str:
        """The name under which this fault is declared."""
        return str(self.__struct_config__.tag)

    def text(self, *, without: str = "") -> str:
        """Return this fault on one line: its type, its first field's value, and the other fields by name.

        The field `without` is omitted.
        """
        return self._line(word for word in field_words(self) if word[0] != without)

    @classmethod
    def example(cls, field: str = "") -> dict[str, Any]:
        """Return the fields of a valid fault of this type: the required ones, and `field`."""
        infos = [info for info in fields_of(cls) if info.required or info.encode_name == field]
        return {info.encode_name: _example_value(info) for info in infos}

    @classmethod
    def example_text(cls, field: str = "") -> str:
        """Return that example on one line."""
        values = cls.example(field)
        infos = [info for info in fields_of(cls) if info.encode_name in values]
        return cls._line(word for info in infos for word in _words_of_field(info, values[info.encode_name]))

    @classmethod
    def _line(cls, words: Iterable[tuple[str, str]]) -> str:
        first = next(iter(cls.__struct_encode_fields__), "")
        named = [("" if name == first else name, value) for name, value in words]
        return join_words([("", str(cls.__struct_config__.tag)), *named])

    def check(self) -> None:
        """Check that every value is meaningful in a plan. A recording may hold more, because a server answered it.

        Raises:
            InputError: a value is meaningless; its place is the field.
        """

    def __str__(self) -> str:
        return self.text()


F_co = TypeVar("F_co", bound=DeclaredFault, covariant=True)


class VariantSite(Protocol):
    """A call at which an exploration may try a fault."""

    @property
    def is_tool(self) -> bool:
        """Whether it is a tool call."""
        ...

    @property
    def is_reported(self) -> bool:
        """Whether it is an effect reported by a program, which can no longer fail."""
        ...

    @property
    def has_tools(self) -> bool:
        """Whether the model may call tools."""
        ...

    @property
    def is_over_http(self) -> bool:
        """Whether an HTTP client calls the model."""
        ...

    @property
    def asks_for_tools(self) -> bool:
        """Whether the model's answer requests tools."""
        ...

    def can_tell(self, lie: DeclaredFault) -> bool:
        """Return whether a lie changes the result of the call."""
        ...

    @property
    def positions(self) -> Sized:
        """The stream positions where a fault can fire, or none without a stream."""
        ...


class FaultVariant(Struct, Generic[F_co], frozen=True):
    """One form of a fault that an exploration tries, under the name of its column.

    Attributes:
        is_persistent: it is also tried as a lasting fault, to see whether and how a run gives up: on every attempt
            of a call, or on every call of a tool.
        outlasts_call: if it lasts, then from its call on. So do answers that arrive: an agent that rejects one makes a
            new call.
        is_only_persistent: it is tried only as a lasting fault.
        is_optional: it is tried only if named, because a sound agent may not withstand it.
        is_spread: unless named, it takes turns with the other spread ones: one of them at each call.
        needs_stream: it can fire only in streamed calls.
        needs_tools: it can fire only in calls whose model may call tools.
        needs_tool_calls: it can fire only in calls whose answer requests tools.
        strikes_each: where an answer requests several tools, it is also tried on each of these calls alone, by the
            `number` of the fault.
        needs_overlap: it is tried only on concurrent calls, as an order of their answers.
        in_process_only: it is tried only on subjects in this process.
        http_only: it is tried only on HTTP clients, and on programs.
        http_fault: the fault to try on programs instead, where waiting takes real time.
        fits_reports: it can fire right after a program has reported an effect.
        is_only_for_tools: it is tried only at tool calls.
        asks_for_effect: its text asks for an effect of the run, with another argument.
        is_of_fields: it is tried on each field of the result that the run uses later, by the `name` of the fault.
    """

    name: str
    fault: F_co
    is_persistent: bool = False
    outlasts_call: bool = False
    is_only_persistent: bool = False
    is_optional: bool = False
    is_spread: bool = False
    needs_stream: bool = False
    needs_tools: bool = False
    needs_tool_calls: bool = False
    strikes_each: bool = False
    needs_overlap: bool = False
    in_process_only: bool = False
    http_only: bool = False
    http_fault: F_co | None = None
    fits_reports: bool = False
    is_only_for_tools: bool = False
    asks_for_effect: bool = False
    is_of_fields: bool = False

    def fits(self, site: VariantSite) -> bool:
        """Return whether the fault can fire there."""
        if self.needs_overlap or (site.is_reported and not self.fits_reports):
            return False
        is_for_tools = self.fault.is_for_tools or self.is_only_for_tools
        is_other = site.is_tool != is_for_tools and (is_for_tools or not self.fault.fits_any_call)
        if is_other or (self.needs_tools and not site.has_tools):
            return False
        if self.needs_tool_calls and not site.asks_for_tools:
            return False
        if self.http_only and not site.is_over_http and not site.is_tool:
            return False
        is_lie_of_tool = is_for_tools and "lies" in self.fault.traits
        if is_lie_of_tool and not self.is_of_fields and not site.can_tell(self.fault):
            return False
        return bool(site.positions) or not self.needs_stream


class Crash(DeclaredFault, frozen=True, tag="crash"):
    """Kills the process of a run, and starts it again. Only `explore` restarts runs.

    `before` is before a model is asked, or a tool runs. `after` is when it has answered, or taken effect, and before
    the program uses that. It fires once in a run.
    """

    family: ClassVar[FaultFamily] = "crash"
    fits_any_call: ClassVar[bool] = True

    when: Literal["before", "after"]

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        """Return both forms at tools, and `before` at models, where an unused answer leaves a run unchanged."""
        after = FaultVariant("crash after", cls("after"), is_optional=True, is_only_for_tools=True, fits_reports=True)
        return FaultVariant("crash before", cls("before"), is_optional=True), after


class CallTarget(Struct, frozen=True):
    """The tool or model call until which an answer is held. Without a number, no call is named."""

    tool: str = ""
    step: str = ""
    call: int = 0


Hold: TypeAlias = Callable[[CallTarget], Awaitable[None]]


async def hold_nothing(target: CallTarget) -> None:
    """Return at once, because no other call is known."""


class FaultedCall(Struct, frozen=True):
    """The model call at which a fault fires. `clean` fetches its reply without the fault.

    `hold` waits until another call of the run has ended. In an exploration, every injected text carries the `mark`;
    elsewhere it is empty.
    """

    request: Request
    clean: Callable[[], Awaitable[Reply]]
    clock: Clock
    provider: str
    mark: str = ""
    hold: Hold = hold_nothing


class Fault(DeclaredFault, frozen=True):
    """A way for a model to fail."""

    @abstractmethod
    async def apply(self, call: FaultedCall) -> Reply:
        """Make `call` fail: raise an error, or return a wrong reply."""


INJECTED_ERROR = "an injected error"
"""The message of an error that a fault does not word itself."""


def add_mark(text: str, mark: str) -> str:
    """Return `text` with the mark at its end, or inside it if it is JSON, which it remains.

    Without a mark, or without text to carry one, the text is unchanged.
    """
    if not mark or not text.strip():
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return f"{text} {mark}"
    return orjson.dumps(_mark_json(value, mark)).decode()


def _mark_json(value: Any, mark: str) -> Any:
    """Return the JSON value with the mark: in its error message if it has one, else as a further item."""
    match value:
        case {"error": dict(error)}:
            return value | {"error": _mark_json(error, mark)}
        case {"message": str(message)}:
            return value | {"message": f"{message} {mark}"}
        case dict():
            return value | {"mark": mark}
        case list():
            return [*value, mark]
        case str():
            return f"{value} {mark}"
        case _:
            return value
