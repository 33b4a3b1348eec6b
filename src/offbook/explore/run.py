"""The record of one run: its calls, the chunks of its streams, its ending, and its possible fault sites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from offbook.explore.effects import net_effects, volatile_values
from offbook.explore.noise import Noise
from offbook.faults import At, FaultPlan
from offbook.faults.fault import DeclaredFault
from offbook.faults.lies import Lie, ValueChanged, values_of
from offbook.faults.order import CallOrder
from offbook.faults.tools import EndedCall, KnownAnswer
from offbook.messages import JsonObject, ReasoningDelta, StreamDelta, TextDelta, Usage
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.continuation import CONTINUATIONS, Continuation
from offbook.session.numbers import CallNumbers
from offbook.text import shorten
from offbook.tools.effects import UNDECLARED, Effect, ToolDeclaration

_ToolChunk = Literal["tool_call", "tool_key", "tool_value"]
ChunkKind = Literal["text", "reasoning", _ToolChunk, "other"]
TOOL_CHUNKS: frozenset[ChunkKind] = frozenset(get_args(_ToolChunk))
"""The content of a streamed answer's chunk. A chunk of a tool call continues a key or a value of its arguments, or
begins something new. `other` are the surrounding events, which exist only over HTTP.
"""

MAX_TOOL_PLACES = 8
"""The number of places inside tool calls that are all tried; of more, one of each kind is."""


class ChunkKinds:
    """Determines the kinds of one stream's chunks, in order."""

    def __init__(self) -> None:
        self._scans: dict[int, _JsonScan] = {}

    def next(self, delta: StreamDelta) -> ChunkKind:
        """Return the kind of the next chunk."""
        if isinstance(delta, TextDelta):
            return "text"
        if isinstance(delta, ReasoningDelta):
            return "reasoning"
        scan = self._scans.setdefault(delta.index, _JsonScan())
        kind = scan.place
        scan.read(delta.arguments)
        return kind


class _JsonScan:
    """Reads JSON piece by piece, and tracks whether it is inside a key or a value."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._in_string = self._is_escaped = self._in_scalar = self._expects_key = False

    @property
    def place(self) -> _ToolChunk:
        """The place at the end of the JSON so far."""
        if self._in_string:
            return "tool_key" if self._expects_key else "tool_value"
        return "tool_value" if self._in_scalar else "tool_call"

    def read(self, text: str) -> None:
        for char in text:
            if self._in_string:
                self._read_string(char)
            else:
                self._read_structure(char)

    def _read_string(self, char: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif char == "\\":
            self._is_escaped = True
        else:
            self._in_string = char != '"'

    def _read_structure(self, char: str) -> None:
        self._in_string = char == '"'
        self._in_scalar = char not in '"{}[]:,' and not char.isspace()
        if char in "{[":
            self._open.append(char)
        elif char in "}]" and self._open:
            self._open.pop()
        if char in "{,":
            self._expects_key = self._open[-1:] == ["{"]
        elif char in ":[":
            self._expects_key = False


def places_in(chunks: Sequence[ChunkKind]) -> Iterator[tuple[str, int]]:
    """Yield the named places in a stream, as numbers of chunks before them.

    They are before it starts, inside text, inside tool calls, and before its end. Inside tool calls, a few are all
    used; of many, the first and the last, and one each inside a key and a value of the arguments.
    """
    yield "start", 0
    texts = [place for place, kind in enumerate(chunks) if kind == "text"]
    if len(texts) > 1:
        yield "text", texts[len(texts) // 2]
    yield from _places_in_tool_calls(chunks)
    telling = [place for place, kind in enumerate(chunks) if kind != "other"]
    if telling and len(chunks) > 1:
        yield "end", telling[-1] + 1


def _places_in_tool_calls(chunks: Sequence[ChunkKind]) -> Iterator[tuple[str, int]]:
    places = [place for place, kind in enumerate(chunks) if kind in TOOL_CHUNKS and place > 0]
    if len(places) <= MAX_TOOL_PLACES:
        yield from ((f"tool call {number}", place) for number, place in enumerate(places, 1))
        return
    yield "tool call, first", places[0]
    for name, kind in (("key", "tool_key"), ("value", "tool_value")):
        inside = [place for place in places[1:-1] if chunks[place] == kind]
        if inside:
            yield f"tool call, {name}", inside[len(inside) // 2]
    yield "tool call, last", places[-1]


CallOutcome = Literal["answered", "failed", "diverged"]
Follows = Literal["", "repeats", "continues"]
ErrorKind = Literal["declared", "gave up", "undeclared"]


class ModelCall(Struct, frozen=True, kw_only=True):
    """One attempt of a model call.

    `number` counts the calls of the run from 1, `step_call` those of its step, and `attempt` the attempts of the
    call. `has_tools` is whether the request offers tools. `chunks` are the kinds of a streamed answer's chunks,
    `asks_for` the tools that the answer requests, with arguments.

    `is_too_soon` is whether the attempt came before the wait that the last answer requested. `forgot` counts the
    messages of the failed call before it that a request without new ones lacks. `told` is whether the request reports
    a failure that the clean run does not have. `waited_s` is the wait after the previous attempt, in virtual time, or
    None. `effects_before` counts the effects observed before the answer; None if unknown. `follows` is whether the
    request repeats its step's previous one, or continues a conversation; otherwise it is a new question. A call that
    `is_over_http` is an HTTP client's. `refusal` is the real API's reason to refuse the request; the run `got_out` of
    it if a later request of the same conversation was accepted. `agent` names the asking agent, if the request does:
    its step, or the beginning of its instructions. Equal requests have equal `identity`. `usage` are the tokens of an
    answer.
    """

    number: int
    step_id: str | None = None
    step_call: int = 0
    attempt: int = 1
    model: str = ""
    has_tools: bool = False
    is_streamed: bool = False
    chunks: tuple[ChunkKind, ...] = ()
    asks_for: tuple[tuple[str, JsonObject], ...] = ()
    outcome: CallOutcome = "answered"
    error: str = ""
    is_too_soon: bool = False
    forgot: int = 0
    told: bool = False
    waited_s: float | None = None
    effects_before: int | None = None
    follows: Follows = ""
    is_over_http: bool = False
    refusal: str = ""
    got_out: bool = False
    agent: str = ""
    identity: str = ""
    usage: Usage | UnsetType = UNSET

    @property
    def row(self) -> str:
        """The name of the attempt in a heatmap: its number, its step and, from the second on, its attempt."""
        name = f"{self.number}" if self.step_id is None else f"{self.number} {self.step_id}"
        return name if self.attempt == 1 else f"{name} try {self.attempt}"


class ToolRun(Struct, frozen=True, kw_only=True):
    """One call of a tool. `call` counts the calls of this tool from 1.

    `has_run` is whether the tool itself ran, which a fault may prevent, and `has_failed` whether it then raised or
    returned a failure. `error` is the agent's error instead of a result. A call that is not `is_observed` is inferred
    from a program's conversation, and cannot fail.
    """

    tool: str
    call: int
    arguments: JsonObject
    result: str = ""
    error: str | None = None
    has_run: bool = True
    has_failed: bool = False
    side_effect: bool = False
    is_observed: bool = True


class RunFailure(Struct, frozen=True, omit_defaults=True):
    """The error that ended a run. It is declared if the agent may raise it.

    A run also gave up if it ended with an exit code and no traceback, or with its vendor SDK's error. Another error is
    undeclared: a crash.

    `declared_as` is its declared name: its class's, a base class's, or an exit code. It is empty for errors of offbook.
    """

    kind: ErrorKind
    type: str
    message: str
    declared_as: str = ""


_API_MODULES = (
    *("openai", "anthropic", "google", "botocore", "ollama", "mistralai", "cohere", "groq", "litellm"),
    *("httpx", "httpx2", "httpcore", "requests", "aiohttp"),
    *("pydantic_ai", "agents", "langgraph"),
)
_API_ERROR = re.compile(r"(?!ParamValidation|JSONDecode|User)\w*(?:Error|Exception|Timeout|Exceeded|Behavior)")


def is_api_error(module: str, name: str) -> bool:
    """Return whether an error is one of a vendor's SDK, an HTTP client or an agent framework.

    It escapes when their retries or limits are over. Errors about wrong use are none.
    """
    return module.partition(".")[0] in _API_MODULES and _API_ERROR.fullmatch(name) is not None


class EffectCounts(Counter[str]):
    """Counts of side effects by tool: 0 for a tool without any.

    Raises:
        KeyError: none of the `tools` of the run has that name, but one has almost that name.
    """

    tools: Collection[str] = ()

    def __missing__(self, tool: str) -> int:
        from difflib import get_close_matches  # noqa: PLC0415 - few invariants need it

        near = [] if tool in self.tools else get_close_matches(tool, self.tools, n=1, cutoff=MISSPELT)
        if near:
            raise KeyError(f"there is no tool {tool!r}; did you mean {near[0]!r}?")
        return 0


MISSPELT = 0.85
"""The similarity above which a name counts as a misspelling of another. Tools that run only after a failure are unknown
before, and may have similar names.
"""


class FirstLife(Struct, frozen=True):
    """A run until it was killed: `killed` says where, like `before call 2`."""

    killed: str
    effects: tuple[Effect, ...] = ()

    def describe(self, effects: Iterable[Effect]) -> str:
        """Return a line about the lives of a run with `effects`, including those of its first life."""
        before = Counter(map(str, self.effects))
        parts = [("before", before), ("after", Counter(map(str, effects)) - before)]
        done = [f"{when} that, {', '.join(each.elements())} ran" for when, each in parts if each]
        return f"it was killed {self.killed}, and started again; {'; '.join(done) or 'nothing was changed'}"


class Run(Struct, frozen=True, kw_only=True, dict=True):
    """One run, from start to end.

    `result` is its result as JSON. `broken` lists the violated assertions, `fired` the fired faults.
    `diverged` describes an unrecorded request, `hung` why the run counts as hung; both are empty otherwise.
    `continuation` names the answer to such a request, if any. `effects` are its side effects, in order,
    `unseen` the tool calls that may or may not have run, and `declarations` its tools' declarations.
    `marks` are the marks of the fired faults, which reveal injected text. `took_s` is in virtual time if the run has
    it. `paths` counts its recoveries: retries, fallbacks, breakers; of one that `is_program`, only retries are known.
    `reported` are the tools of effects that it reported to offbook directly, after which it can be killed. A run that
    was killed and restarted has both lives: the calls, tools and effects of both, and the end of the second;
    `first_life` describes the first. `overlaps` are the sets of concurrent calls, each in the order in which they
    ended, if its plan has order faults. `state` is the final state of the user's world as JSON, if known. The clean
    run's `noise` is its difference when it is made again. `unknown_reads` are reads with unknown answers after an
    unseen effect. `reached` are the places that it has reported to have reached.
    """

    result: Any = None
    error: RunFailure | None = None
    broken: tuple[str, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    tools: tuple[ToolRun, ...] = ()
    fired: tuple[str, ...] = ()
    diverged: str = ""
    continuation: str = ""
    hung: str = ""
    effects: tuple[Effect, ...] = ()
    unseen: tuple[Effect, ...] = ()
    declarations: dict[str, ToolDeclaration] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    took_s: float = 0.0
    paths: dict[str, int] = field(default_factory=dict)
    is_program: bool = False
    reported: tuple[str, ...] = ()
    first_life: FirstLife | None = None
    overlaps: tuple[tuple[At, ...], ...] = ()
    state: Any = UNSET
    noise: Noise | UnsetType = UNSET
    unknown_reads: tuple[str, ...] | UnsetType = UNSET
    reached: tuple[str, ...] = ()

    @cached_property
    def requested_values(self) -> set[str]:
        """The UUIDs and times in its models' requests for tools, which are equal in every replay."""
        return volatile_values([call.asks_for for call in self.calls])

    @property
    def places(self) -> set[str]:
        """The names that the run has reached: steps, tools, models, recovery paths, and reported places."""
        answered = [call for call in self.calls if call.outcome == "answered"]
        named = {name for call in answered for name in (call.step_id, call.model) if name}
        return named | {each.tool for each in self.tools} | self.paths.keys() | set(self.reached)

    @property
    def trajectory(self) -> list[tuple[str, JsonObject]]:
        """The tool calls in order, as names and arguments."""
        return [(each.tool, each.arguments) for each in self.tools]

    @property
    def prevented_effects(self) -> list[Effect]:
        """The calls of tools that a fault prevented, as failed effects: their caller cannot distinguish them."""
        prevented = [each for each in self.tools if not each.has_run and each.error is not None]
        return [Effect(tool=each.tool, arguments=each.arguments, outcome="failed") for each in prevented]

    @property
    def side_effects(self) -> EffectCounts:
        """The number of each tool's side effects, without harmless repetitions and undone ones."""
        counts = EffectCounts(effect.tool for effect in net_effects(self.effects, self.declarations))
        counts.tools = {*self.declarations, *(each.tool for each in self.tools), *(each.tool for each in self.effects)}
        return counts


CASE_VARIABLE = "OFFBOOK_CASE"
"""The environment variable that names the case of a run, for a ledger that a program keeps itself."""


def case_name(plan: FaultPlan, continuation: Continuation = "stubborn") -> str:
    """Return the name of a run: its faults, and its continuation, unless it is the first one."""
    name = shorten(str(plan), 500) if list(plan) else "clean"
    return name if continuation == CONTINUATIONS[0] else f"{name} ({continuation})"


_OBJECT_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")


def normalize_text(text: str, names: Mapping[str, str] | None = None) -> str:
    """Replace `names` in the text, longest first, and remove addresses of objects."""
    for name in sorted(names or {}, key=len, reverse=True):
        text = text.replace(name, (names or {})[name])
    return _OBJECT_ADDRESS.sub("0x…", text)


def error_text(error: BaseException) -> str:
    """Return the text of an error, normalised, or why it cannot be had."""
    try:
        return normalize_text(str(error))
    except Exception as failure:
        return f"its text cannot be had: str() raised {type(failure).__name__}"


def normalize_texts(value: Any, names: Mapping[str, str]) -> Any:
    """Replace `names` in every text of a JSON value, also in field names, and remove addresses of objects."""
    if isinstance(value, str):
        return normalize_text(value, names)
    if isinstance(value, dict):
        return {normalize_text(key, names): normalize_texts(each, names) for key, each in value.items()}
    return [normalize_texts(each, names) for each in value] if isinstance(value, list) else value


MAX_FIELDS = 4
"""The number of fields of one result that are tried. An exploration may have many calls, and results many fields."""


class ExploredSite(Struct, frozen=True):
    """A possible fault site of a run, with its heatmap row, like `2 answer` or `refund 1`.

    `tool_calls` is the number of tool calls that the answer requests. `positions` are the places in its stream worth a
    fault, by name, as numbers of chunks before them. A tool call with a result has the `run`, and its `place` there.
    """

    row: str
    at: At
    has_tools: bool = False
    tool_calls: int = 0
    is_over_http: bool = False
    positions: tuple[tuple[str, int], ...] = ()
    is_reported: bool = False
    run: Run | None = None
    place: int = 0

    @property
    def ended(self) -> EndedCall | None:
        """The tool call with its result and the other answers of the tool in the run, or None if it has no result."""
        if self.run is None:
            return None
        call = self.run.tools[self.place]
        others = (
            KnownAnswer(each.arguments, each.result, is_of_run=place < self.place)
            for place, each in enumerate(self.run.tools)
            if each.tool == call.tool and each.error is None and each.has_run and place != self.place
        )
        return EndedCall(call.tool, call.arguments, call.result, known=tuple(others))

    def can_tell(self, lie: DeclaredFault) -> bool:
        """Return whether a lie changes what the caller knows, as far as the run shows."""
        ended = self.ended
        if self.run is None or ended is None or not isinstance(lie, Lie):
            return False
        if lie.withholds_effect:
            return not self.run.declarations.get(ended.tool, UNDECLARED).read_only
        return lie.outcome(ended) != ended.result

    @property
    def other_effect(self) -> str:
        """The last effect of the run with another argument, like `refund({"order_id": 43})`; empty without any."""
        effects = () if self.run is None else [each for each in self.run.effects if each.outcome == "done"]
        for effect in reversed(effects):
            other = ValueChanged().outcome(EndedCall(effect.tool, {}, effect.arguments))
            if other != effect.arguments:
                return f"{effect.tool.rpartition('.')[2]}({msgspec.json.encode(other).decode()})"
        return ""

    @property
    def telling_fields(self) -> list[str]:
        """The fields of a tool's result, at most `MAX_FIELDS`: those whose values the run uses later, or else any."""
        if self.run is None or self.ended is None:
            return []
        later = [each.arguments for each in self.run.tools[self.place + 1 :]]
        used = f"{msgspec.json.encode(later).decode()}\n{msgspec.json.encode(self.run.result).decode()}"
        fields = list(values_of(self.ended.result))
        chosen = [name for name, value in fields if len(value) > 1 and value in used]
        return list(dict.fromkeys(chosen or [name for name, _ in fields]))[:MAX_FIELDS]

    @property
    def asks_for_tools(self) -> bool:
        return self.tool_calls > 0

    @property
    def is_tool(self) -> bool:
        return self.at.tool is not None


def overlaps_of(order: CallOrder) -> tuple[tuple[At, ...], ...]:
    """Return the sets of concurrent calls, without those of later attempts."""
    sets = [[replace(At.of(place), workflow=None) for place in places] for places in order.overlaps]
    first = [tuple(at for at in places if at.attempt in (None, 1)) for places in sets]
    return tuple(dict.fromkeys(places for places in first if len(places) > 1))


def sites_of(run: Run) -> list[ExploredSite]:
    """Return the sites of a run in the order in which it reached them: models first, then tools, then reports."""
    return [*_model_sites(run.calls), *_tool_sites(run), *_reported_sites(run.reported)]


def _model_sites(calls: Iterable[ModelCall]) -> Iterator[ExploredSite]:
    for call in calls:
        at = (
            At(call=call.number, attempt=call.attempt)
            if call.step_id is None
            else At(step_id=call.step_id, call=call.step_call, attempt=call.attempt)
        )
        positions = tuple(places_in(call.chunks)) if call.is_streamed and call.chunks else ()
        yield ExploredSite(
            row=call.row,
            at=at,
            has_tools=call.has_tools,
            tool_calls=len(call.asks_for),
            is_over_http=call.is_over_http,
            positions=positions,
        )


def _tool_sites(run: Run) -> Iterator[ExploredSite]:
    for place, each in enumerate(run.tools):
        if each.is_observed:
            site = ExploredSite(f"{each.tool} {each.call}", At(tool=each.tool, call=each.call))
            yield site if each.error is not None or not each.has_run else replace(site, run=run, place=place)


def _reported_sites(tools: Iterable[str]) -> Iterator[ExploredSite]:
    counts = Counter[str]()
    for tool in tools:
        counts[tool] += 1
        yield ExploredSite(f"{tool} {counts[tool]}", At(tool=tool, call=counts[tool]), is_reported=True)


def recorded_run(document: Document) -> Run:
    """Return the recorded model and tool calls, in recording order.

    A failed and repeated call has several attempts. The number of uses of an entry that answers every call is unknown.
    Without recorded tool calls, they are those that the recorded answers request.
    """
    calls = tuple(_recorded_calls(document))
    return Run(calls=calls, tools=tuple(_recorded_tools(document)) or tuple(_requested_tools(calls)))


def _recorded_calls(document: Document) -> Iterator[ModelCall]:
    numbers = CallNumbers()
    for key, exchange in sorted(document, key=lambda entry: entry[1].recorded_at or ""):
        if exchange.http_fields() is not None or exchange.when is not None:
            continue
        step_id, identity = None if key == exchange.request_hash else key, exchange.request_hash
        site = numbers.start(("", step_id), identity)
        numbers.finish(site, identity, failed=exchange.fault is not None)
        request = exchange.request_fields() or {}
        yield ModelCall(
            number=site.overall,
            step_id=step_id,
            step_call=site.call,
            attempt=site.attempt,
            model=exchange.model,
            has_tools=bool(request.get("tools") or exchange.tool_calls),
            is_streamed=exchange.chunks is not None,
            chunks=_recorded_chunks(exchange),
            asks_for=tuple((call.tool, call.args) for call in exchange.response(model="", provider="").tool_calls),
            is_over_http=exchange.wire is not None,
        )


def _recorded_chunks(exchange: Exchange) -> tuple[ChunkKind, ...]:
    """Return the kinds of the chunks of a streamed answer: over HTTP its events, else its deltas."""
    if exchange.chunks is None:
        return ()
    if exchange.wire is not None:
        from offbook.explore.observer import recorded_chunk_kinds  # noqa: PLC0415 - it needs this module

        return recorded_chunk_kinds(exchange.wire)
    kinds = ChunkKinds()
    return tuple(kinds.next(delta) for _, delta in exchange.timed_deltas())


def _requested_tools(calls: Iterable[ModelCall]) -> Iterator[ToolRun]:
    counts = Counter[str]()
    for tool, arguments in (each for call in calls for each in call.asks_for):
        counts[tool] += 1
        yield ToolRun(tool=tool, call=counts[tool], arguments=arguments)


def _recorded_tools(document: Document) -> Iterator[ToolRun]:
    calls = Counter[str]()
    for tool, exchange in sorted(each_exchange(document.tools), key=lambda entry: entry[1].recorded_at or ""):
        calls[tool] += 1
        arguments = exchange.arguments if isinstance(exchange.arguments, dict) else {}
        yield ToolRun(tool=tool, call=calls[tool], arguments=arguments)


def named_calls(clean: Run) -> set[str]:
    """Return the steps and tools of a clean run. Without others, no run can go on."""
    return {call.step_id for call in clean.calls if call.step_id} | {each.tool for each in clean.tools}
