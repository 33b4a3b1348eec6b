"""The sources of answers: a recording in its order, a cache, a shared position, the script of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from functools import cached_property
from typing import TYPE_CHECKING, Generic

import msgspec
import orjson
from msgspec.structs import replace

from offbook.clock import wall_time
from offbook.errors import RecordingMismatchError, RecordingUnavailableError
from offbook.messages import JsonObject
from offbook.recording.format.document import E
from offbook.recording.format.exchange import Exchange, ToolExchange, hash_arguments
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.match.cursor import (
    AlikeArguments,
    Cursor,
    ExchangeMatch,
    PositionCursor,
    SharedCursor,
    SharedToolCursor,
    is_named_in,
)
from offbook.recording.match.fingerprint import NO_RULES, agentloom_fingerprints
from offbook.recording.match.folders import SAME_FOLDERS, other_homes
from offbook.recording.stores.store import Claim, SharedPosition
from offbook.session.call import Call
from offbook.session.log import Log, LoggedCursor, Served
from offbook.session.session import lost_answer
from offbook.session.tape import Tape

if TYPE_CHECKING:
    from offbook.recording.call_cache import CallCache

MISSING: ExchangeMatch[Exchange] = ExchangeMatch("default", mismatch="missing")
MISSING_TOOL: ExchangeMatch[ToolExchange] = ExchangeMatch("default", mismatch="missing")


class Source(Served, Generic[E]):
    """Recorded exchanges that answer calls, each as often as a replay may use it."""

    def __init__(self, tape: Tape, cursor: Cursor[E]) -> None:
        self.tape, self._cursor, self._began = tape, cursor, wall_time()

    def use(self, match: ExchangeMatch[E]) -> None:
        """Count a match as served."""
        if match.stored is not None:
            self._cursor.use(match.stored)
        self._note_difference(match)

    def _note_difference(self, match: ExchangeMatch[E]) -> None:
        if match.but_for:
            self.tape.but_for[match.but_for] += 1

    def serve(self, match: ExchangeMatch[E], tool: str = "") -> None:
        """Count a match as served to a model call, or to a call of `tool`; return it if a fault loses it."""
        if lost_answer.get() == tool:
            self.give_back(match)
        else:
            self.use(match)

    def give_back(self, match: ExchangeMatch[E]) -> None:
        """Leave a match that was found, and is not served, for the next call."""

    def rewind(self) -> None:
        """Count no exchange as served."""
        self._cursor.rewind()

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the served exchanges, in the order of their first use."""
        return self._cursor.used_ids

    def note_used(self, ids: Iterable[int]) -> None:
        """Count exchanges as served by another process's replay of the recording."""
        self._cursor.note_used(ids)

    @property
    def log(self) -> Log:
        return Log([LoggedCursor(self._cursor, but_for=self.tape.but_for)])


class RecordedModels(Source[Exchange]):
    """Answers calls of models and of other APIs from a recording.

    A model call matches an entry by its step if it has one, by its fingerprint, by the relevant parts of its request,
    by the same conversation in another protocol, or an entry without a request. Plain HTTP matches only by its
    fingerprint.
    """

    def __init__(self, tape: Tape, cursor: Cursor[Exchange] | None = None) -> None:
        super().__init__(tape, Cursor(tape.reader) if cursor is None else cursor)

    def find(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        """Return the answer to a call of a step. It counts as served after `use`.

        Without an answer, the match of a lenient tape has the reason, and perhaps the nearest entry.

        Raises:
            RecordingMismatchError: no entry matches, and the tape is strict.
        """
        match = self.look_up(call, step)
        if match.mismatch is not None and self.tape.strict:
            raise self.refusal(call, step, match)
        return match

    def look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        """Return the answer to a call with this run's folders, or the reason for having none.

        Raises:
            RecordingMismatchError: the answer names a folder without a known counterpart in this run.
        """
        return self._with_folders(call, self._look_up(call, step))

    def _with_folders(self, call: Call, match: ExchangeMatch[Exchange]) -> ExchangeMatch[Exchange]:
        renames, stored = call.renames, match.stored
        if stored is None or match.mismatch is not None or stored.fingerprint is None or not self.tape.rules.home_paths:
            return match.with_folders(renames)
        if stored.fingerprint != call.request_hash or self.tape.rules is not NO_RULES:
            renames = renames.plus(other_homes(bytes(stored.exchange.request), call.fields) | match.folders)
        return match.with_folders(renames)

    def _look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        """Return the answer to a call, or the reason for having none."""
        match = self._match(call, step)
        if match.mismatch is None:
            return match
        other = self._match_agentloom(call, step)
        if other is None:
            own_step, fields = None if call.request is None else step, orjson.loads(call.fields)
            other = self.tape.alike.match(self._cursor, own_step, fields, self._began)
            other = other if other is None or _has_answer(call, other) else None
        if other is None and match.mismatch == "missing" and call.protocol and call.request is not None:
            other = self.tape.cross_protocol.find(call, self._cursor)
        is_better = other is not None and (other.mismatch is None or self.tape.strict)
        return other if other is not None and is_better else match

    def _match_agentloom(self, call: Call, step: str | None) -> ExchangeMatch[Exchange] | None:
        """Return what answers a call in a recording that AgentLoom wrote; None if nothing does."""
        if call.request is None or "created_by" in self.tape.reader.meta:
            return None
        for fingerprint in agentloom_fingerprints(call.request):
            match = self._cursor.match(step, fingerprint)
            if match.mismatch is None:
                return match
        return None

    def refusal(self, call: Call, step: str | None, match: ExchangeMatch[Exchange]) -> RecordingMismatchError:
        """Return the error of an unanswered call: the nearest entry, and the difference."""
        from offbook.recording.match.mismatch import (  # noqa: PLC0415 - most runs have no mismatch
            http_mismatch_error,
            mismatch_error,
        )

        if call.is_message:
            from offbook.recording.match.websocket import websocket_mismatch_error  # noqa: PLC0415

            return websocket_mismatch_error(orjson.loads(call.fields), self.tape.websocket_turns, self.tape.reader)
        if call.request is None:
            place = f"{call.method} {call.place}"
            return http_mismatch_error(
                place=place, vendor=call.vendor, problem=call.problem, match=match, reader=self.tape.reader
            )
        return mismatch_error(replace(call.request, step_id=step), match, self.tape.reader, self.tape.rules)

    def judges(self, fingerprint: str) -> bool:
        """Return whether a request may break rules of its vendor: not if its answer is recorded."""
        return self.tape.reader.last(key=None, fingerprint=fingerprint) is None

    def has_accepted_alike(self, call: Call) -> bool:
        """Return whether the answer to a request is recorded that differs only in who asks, when and where."""
        return bool(self.tape.alike.find(orjson.loads(call.fields), self._began))

    def can_answer(self, fingerprint: str) -> bool:
        """Return whether an exchange with this fingerprint is left, or repeats."""
        return self._cursor.match(None, fingerprint).mismatch is None

    def _match(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        if call.request is not None:
            return self._cursor.match(step, call.request_hash)
        match = self._cursor.match(None, call.request_hash)
        return match if _has_answer(call, match) else MISSING


def _has_answer(call: Call, match: ExchangeMatch[Exchange]) -> bool:
    """Return whether a match answers a call. Plain HTTP needs recorded bytes, or a recorded failure."""
    if call.request is not None:
        return True
    return match.stored is not None and bool(match.stored.exchange.wire or match.stored.exchange.fault)


class CachedModels(RecordedModels):
    """Answers from the current state of a shared recording. The real API makes missing calls."""

    def __init__(self, tape: Tape, cache: CallCache) -> None:
        super().__init__(tape, SharedCursor(cache.reader))
        self._cache = cache

    def _look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        found = MISSING

        def is_answered() -> bool:
            nonlocal found
            found = self._match(call, step)  # a cache is not searched for similar requests
            return found.mismatch is None

        return found if self._cache.has_answer(is_answered) else MISSING

    def refusal(self, call: Call, step: str | None, match: ExchangeMatch[Exchange]) -> RecordingMismatchError:
        return RecordingMismatchError("the shared recording has no answer", kind="missing")

    def use(self, match: ExchangeMatch[Exchange]) -> None:
        self._cache.note_hit()
        super().use(match)


AHEAD = (1, *[16] * 62)
"""The number of answers that each claim of a call requests: more than one only after another process was quicker."""


class ClaimedModels(RecordedModels):
    """Answers a session that other processes also answer: it claims each exchange for all of them before serving it."""

    _cursor: PositionCursor

    def __init__(self, tape: Tape, position: SharedPosition) -> None:
        super().__init__(tape, PositionCursor(tape.reader))
        self._position, self._claimed = position, set[int]()

    def _look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        for count in AHEAD:
            found = self._look_ahead(call, step, count)
            left = {
                match.stored.id: match
                for match in found
                if match.stored and self._is_answer(match) and not self._cursor.is_used(match.stored)
            }
            claim = self._claim(*left)
            if claim.id is not None:
                self._claimed.add(claim.id)
                return left[claim.id]
            if not left and not claim.has_news:
                return found[0]
        raise RecordingUnavailableError("other processes are always quicker", source=self.tape.reader.source)

    def use(self, match: ExchangeMatch[Exchange]) -> None:
        if match.stored is None or match.stored.id not in self._claimed:
            super().use(match)
        else:
            self._claimed.discard(match.stored.id)
            self._note_difference(match)

    def give_back(self, match: ExchangeMatch[Exchange]) -> None:
        if match.stored is not None and match.stored.id in self._claimed:
            self._claimed.discard(match.stored.id)
            self._position.give_back(match.stored.id)

    def _claim(self, *ids: int) -> Claim:
        claim = self._position.claim(*ids)
        self._cursor.follow(claim)
        return claim

    def _is_answer(self, match: ExchangeMatch[Exchange]) -> bool:
        return match.mismatch is None or not self.tape.strict

    def _look_ahead(self, call: Call, step: str | None, count: int) -> list[ExchangeMatch[Exchange]]:
        """Return the answer to the call and its successors, up to a number."""
        found = [super()._look_up(call, step)]
        with self._cursor.supposing() as suppose:
            while len(found) < count and self._is_answer(found[-1]):
                stored = found[-1].stored
                if stored is None or self._cursor.is_used(stored):
                    break
                suppose(stored)
                found.append(super()._look_up(call, step))
        return found


class RecordedTools(Source[ToolExchange]):
    """Answers tool calls from a recording: by the tool's first unused exchange with equal arguments, or with none.

    An MCP server's answers to other requests, such as for a list, are found likewise by the key of the request. The
    last answer repeats, because clients cache lists, and poll.

    `folders` are those of the run that is answered.

    Args:
        alike: finds calls with equivalent arguments; by default, those that differ only in home folders.
        finds_servers: whether a tool recorded over MCP, like `github.create_issue`, is also found by its name
            alone, if only one server has it.
    """

    def __init__(
        self,
        tape: Tape,
        cursor: Cursor[ToolExchange] | None = None,
        *,
        alike: AlikeArguments | None = None,
        finds_servers: bool = True,
    ) -> None:
        self.index, self.folders = tape.reader.tools, SAME_FOLDERS
        super().__init__(tape, Cursor(self.index) if cursor is None else cursor)
        self._alike, self._finds_servers = alike or tape.alike_arguments, finds_servers

    def note_defaults(self, tool: str, defaults: JsonObject) -> None:
        """Note the defaults of a tool's arguments: passing a default explicitly or omitting it is the same."""
        self._alike.note_defaults(tool, defaults)

    def find(self, tool: str, arguments: JsonObject, fingerprint: str = "") -> ExchangeMatch[ToolExchange]:
        """Return the answer to a tool call. It counts as served after `use`.

        Without an answer, the match of a lenient tape has the reason, and perhaps the nearest entry. `fingerprint` is
        that of the call, if more than its arguments counts.

        Raises:
            RecordingMismatchError: no entry matches, and the tape is strict.
        """
        match = self.look_up(tool, arguments, fingerprint)
        if match.mismatch is not None and (self.tape.strict or is_mcp_key(tool)):
            raise self.refusal(tool, arguments, match)
        return match

    def look_up(self, tool: str, arguments: JsonObject, fingerprint: str = "") -> ExchangeMatch[ToolExchange]:
        """Return the answer to a tool call with these arguments and this run's folders, or the reason for having none.

        Raises:
            RecordingMismatchError: the answer names a folder without a known counterpart in this run.
        """
        match = self._look_up(tool, arguments, fingerprint)
        if self.folders is SAME_FOLDERS and not match.folders:
            return match
        as_recorded, named = self.as_recorded(arguments)
        if match.mismatch is not None and not fingerprint and as_recorded != arguments:
            match = self._look_up(tool, as_recorded, "")
        return match.with_folders(self.folders.renames(named).plus(match.folders))

    def as_recorded(self, arguments: JsonObject) -> tuple[JsonObject, frozenset[str]]:
        """Return the corresponding arguments of the recorded run, and the folders in them."""
        text, named = self.folders.as_recorded(msgspec.json.encode(arguments).decode())
        return msgspec.json.decode(text), named

    def _look_up(self, tool: str, arguments: JsonObject, fingerprint: str = "") -> ExchangeMatch[ToolExchange]:
        own = fingerprint or hash_arguments(arguments)
        match = self._cursor.match_key(tool, "step_id", own)
        if match is None and self._finds_servers and (recorded := self._tools_of_servers.get(tool)) is not None:
            match = self._cursor.match_key(recorded, "step_id", own)
        if match is None or match.mismatch is None or match.stored is None:
            return match or MISSING_TOOL
        key = match.stored.key
        found = [] if fingerprint else self._alike.find(key, arguments)
        for each, difference in found:
            alike = self._cursor.match_key(key, "step_id", each)
            if alike is not None and alike.mismatch is None:
                is_named = alike.stored is not None and is_named_in(alike.stored.exchange, difference)
                if is_named or alike.stored is None:
                    return match
                pair = (msgspec.json.encode(each) for each in (alike.stored.exchange.arguments, arguments))
                folders = difference.folders | other_homes(*pair)
                return replace(alike, but_for=difference.kinds, folders=folders)
        for each in (own, *dict(found)) if is_mcp_key(tool) else ():
            last = self.index.last(key=key, fingerprint=each)
            if last is not None:
                return ExchangeMatch("step_id", last)
        return match

    def use(self, match: ExchangeMatch[ToolExchange]) -> None:
        super().use(match)
        if match.stored is not None:
            self._alike.note_served(match.stored)

    def refusal(self, tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange]) -> RecordingMismatchError:
        """Return the error of an unanswered call: the nearest entry, and the difference."""
        from offbook.recording.match.mismatch import tool_mismatch_error  # noqa: PLC0415 - only errors need it

        return tool_mismatch_error(tool, arguments, match, self.index)

    @cached_property
    def _tools_of_servers(self) -> dict[str, str]:
        """The keys of tools that were recorded over MCP, by the name of the tool alone, if one server has it."""
        keys = dict.fromkeys(stored.key for stored in self.index if "." in stored.key and not is_mcp_key(stored.key))
        names = Counter(key.partition(".")[2] for key in keys)
        return {key.partition(".")[2]: key for key in keys if names[key.partition(".")[2]] == 1}

    def log_of(self, servers: Iterable[str]) -> Log:
        """Return the log of these MCP servers' tools."""
        return Log(LoggedCursor(self._cursor, prefix=f"{server}.", but_for=self.tape.but_for) for server in servers)


class CachedTools(RecordedTools):
    """Answers tool calls from the current state of a shared recording. Missing calls are made for real.

    Unlike model requests, equal calls are distinguished: the second call of every run gets the second answer.
    """

    def __init__(self, cache: CallCache) -> None:
        reader = cache.reader
        # Neither tools of servers nor similar arguments are looked for: that would read all calls at every call.
        super().__init__(Tape(reader, strict=True), SharedToolCursor(reader.tools), finds_servers=False)
        self._cache = cache

    def _look_up(self, tool: str, arguments: JsonObject, fingerprint: str = "") -> ExchangeMatch[ToolExchange]:
        return super()._look_up(tool, arguments, fingerprint or hash_arguments(arguments))

    def use(self, match: ExchangeMatch[ToolExchange]) -> None:
        self._cache.note_hit()
        super().use(match)
