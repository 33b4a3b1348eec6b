"""Who answers a call: a recording in its order, a cache, a position that processes share, the script of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from functools import cached_property
from typing import Generic, Literal

import orjson
from msgspec.structs import replace

from offbook.errors import RecordingMismatchError, RecordingUnavailableError
from offbook.messages import JsonObject, Request
from offbook.recording.call_cache import CallCache
from offbook.recording.format.document import E
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.match.continuation import Continuation, WrittenAnswers
from offbook.recording.match.cursor import (
    Cursor,
    ExchangeMatch,
    OverusedEntry,
    PositionCursor,
    SharedCursor,
    UnusedEntry,
    overused_entries,
)
from offbook.recording.stores.store import Claim, ExchangeIndex, SharedPosition
from offbook.session.call import Call
from offbook.session.script import ModelScript, Script
from offbook.session.tape import Tape

_MISSING: ExchangeMatch[Exchange] = ExchangeMatch("default", mismatch="missing")
_MISSING_TOOL: ExchangeMatch[ToolExchange] = ExchangeMatch("default", mismatch="missing")


class Source(Generic[E]):
    """Recorded exchanges that answer calls, each as often as a replay may use it."""

    def __init__(self, cursor: Cursor[E]) -> None:
        self._cursor = cursor

    def use(self, match: ExchangeMatch[E]) -> None:
        """Count a match as served."""
        if match.stored is not None:
            self._cursor.use(match.stored)

    def give_back(self, match: ExchangeMatch[E]) -> None:
        """Leave a match that was found, and is not served, for the next call."""

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served, in the order in which they first were."""
        return self._cursor.used_ids

    def note_used(self, ids: Iterable[int]) -> None:
        """Count exchanges as served that a replay of the same recording in another process has served."""
        self._cursor.note_used(ids)

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the order of the recording."""
        return self._cursor.unused()


class RecordedModels(Source[Exchange]):
    """Answers calls of models and of other APIs from a recording.

    A model call matches an entry by its step if it has one, by its fingerprint, by what counts of its request, by the
    same conversation in another protocol, or an entry that does not say what it answers. Plain HTTP matches by its
    fingerprint alone.
    """

    def __init__(self, tape: Tape, cursor: Cursor[Exchange] | None = None) -> None:
        super().__init__(Cursor(tape.reader) if cursor is None else cursor)
        self.tape = tape

    def find(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        """Return what answers a call of a step. It counts as served when it is passed to `use`.

        If nothing answers, the match of a lenient tape has the reason, and perhaps the nearest entry.

        Raises:
            RecordingMismatchError: nothing answers, and the tape is strict.
        """
        match = self.look_up(call, step)
        if match.mismatch is not None and self.tape.strict:
            raise self.refusal(call, step, match)
        return match

    def look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        """Return what answers a call, or else why nothing does."""
        match = self._match(call, step)
        if match.mismatch is None:
            return match
        other = self.tape.alike.match(self._cursor, None if call.request is None else step, orjson.loads(call.fields))
        if other is None and match.mismatch == "missing" and call.protocol and call.request is not None:
            other = self.tape.cross_protocol.find(call, self._cursor)
        is_better = other is not None and (other.mismatch is None or self.tape.strict)
        return other if other is not None and is_better else match

    def refusal(self, call: Call, step: str | None, match: ExchangeMatch[Exchange]) -> RecordingMismatchError:
        """Return the error of a call that nothing answers: what is nearest, and in what it differs."""
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

    def can_answer(self, fingerprint: str) -> bool:
        """Return whether an exchange with this fingerprint is left, or repeats."""
        return self._cursor.match(None, fingerprint).mismatch is None

    def overused(self) -> list[OverusedEntry]:
        """Return the recorded exchanges that were served more often than they were recorded."""
        return overused_entries(self._cursor)

    def _match(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        if call.request is not None:
            return self._cursor.match(step, call.request_hash)
        match = self._cursor.match(None, call.request_hash)
        has_answer = match.stored is not None and (match.stored.exchange.wire or match.stored.exchange.fault)
        return match if has_answer else _MISSING


class CachedModels(RecordedModels):
    """Answers from a shared recording, as it is when a call is made. What it has not is left to the real API."""

    def __init__(self, tape: Tape, cache: CallCache) -> None:
        super().__init__(tape, SharedCursor(cache.reader))
        self._cache = cache

    def look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        found = _MISSING

        def is_answered() -> bool:
            nonlocal found
            found = self._match(call, step)  # a cache is not searched for similar requests
            return found.mismatch is None

        return found if self._cache.has_answer(is_answered) else _MISSING

    def refusal(self, call: Call, step: str | None, match: ExchangeMatch[Exchange]) -> RecordingMismatchError:
        return RecordingMismatchError("the shared recording has no answer", kind="missing")

    def use(self, match: ExchangeMatch[Exchange]) -> None:
        self._cache.note_hit()
        super().use(match)

    def overused(self) -> list[OverusedEntry]:
        """Return nothing: a cache serves its exchanges as often as it is asked."""
        return []


AHEAD = (1, *[16] * 62)
"""How many answers each claim of a call asks for: more than one only if another process was quicker."""


class ClaimedModels(RecordedModels):
    """Answers a session that other processes answer, too: what it serves, it claims first, for all of them."""

    _cursor: PositionCursor

    def __init__(self, tape: Tape, position: SharedPosition) -> None:
        super().__init__(tape, PositionCursor(tape.reader))
        self._position, self._claimed = position, set[int]()

    def look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
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
        """Return what answers the call, and what would if that had been served, up to so many."""
        found = [super().look_up(call, step)]
        with self._cursor.supposing() as suppose:
            while len(found) < count and self._is_answer(found[-1]):
                stored = found[-1].stored
                if stored is None or self._cursor.is_used(stored):
                    break
                suppose(stored)
                found.append(super().look_up(call, step))
        return found


OnMiss = Literal["explore", "stop", "default", "live"]
"""What answers a call of an exploration that was never recorded: a continuation; nothing, so that the run stops; the
default response; or a real model."""


class ScriptedModels(RecordedModels):
    """Answers the calls of one run of an exploration.

    The first run is a strict replay and writes the `script`: the answers to each request. In later runs equal requests
    get these answers in order, and then the last one again, so that an agent may retry or start over. So do requests
    with the same messages to another model.

    A request that the script does not have is a miss, unless the recording has exactly that request, or an answer that
    was written by hand for it. `on_miss` says what happens then. `mark` is part of the text of a continuation that
    gives up. `continued_by` names what answered misses: a continuation, `default` or `live`; empty if nothing had to.
    """

    def __init__(
        self,
        tape: Tape,
        script: ModelScript,
        *,
        on_miss: OnMiss = "explore",
        continuation: Continuation = "stubborn",
        mark: str = "",
    ) -> None:
        super().__init__(tape)
        self.script, self.continued_by, self._has_ended = script, "", False
        self._run, self._on_miss, self._continuation, self._mark = script.start_run(), on_miss, continuation, mark
        self._written = WrittenAnswers(lambda: tape.written)

    @property
    def is_clean(self) -> bool:
        """Whether this is the first run, which writes the script."""
        return self._run.is_first

    def look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        if self._has_ended:
            return _MISSING
        key = (step or "", call.request_hash)
        scripted = self._run.next_answer(key)
        if scripted is not None:
            return scripted
        match = super().look_up(call, step)
        is_answer = match.mismatch is None
        if is_answer and self._run.accepts(key, None if match.stored is None else match.stored.fingerprint):
            is_model_call = self._run.is_first and call.request is not None
            return replace(match, script_key=key, fields=call.fields if is_model_call else b"")
        return self._answer_nearby(call, key) or (_MISSING if is_answer else match)

    def _answer_nearby(self, call: Call, key: tuple[str, str]) -> ExchangeMatch[Exchange] | None:
        """Return the answer to the same messages by another model, or what was written by hand; None if neither is."""
        if self._run.is_first or call.request is None:
            return None
        fields, conversations = orjson.loads(call.fields), self.script.conversations
        same = conversations.same_conversation(key[0], fields)
        if same is not None:
            return self._run.next_answer(same)
        if not self.tape.written:  # which condition holds takes a while to find out
            return None
        written = self._written.find(key, conversations.condition(key[0], fields))
        return None if written is None else ExchangeMatch("step_id", written, script_key=key)

    def refusal(self, call: Call, step: str | None, match: ExchangeMatch[Exchange]) -> RecordingMismatchError:
        """Return the error with the nearest entry; without it if this is not the first miss that is answered.

        Only the first one is reported, and to look for the nearest entry takes longer than all else.
        """
        if self.continued_by and self.can_continue and match.mismatch is not None:
            return RecordingMismatchError("the run has diverged before", kind=match.mismatch)
        return super().refusal(call, step, match)

    @property
    def can_continue(self) -> bool:
        """Whether misses are answered: not in the clean run, and not after the run was to stop."""
        return not self._has_ended and not self._run.is_first and self._on_miss != "stop"

    def continued(self, call: Call, step: str | None) -> ExchangeMatch[Exchange] | None:
        """Return what answers a call that missed; None if it is to be refused, as all calls after it are then.

        Only whoever made the call can ask a real model instead.
        """
        if not self.can_continue or call.is_message or self._on_miss == "live":
            self._has_ended = self._has_ended or call.request is not None or call.is_message
            return None
        if call.request is None:
            return ExchangeMatch("default")
        self.continued_by = "default" if self._on_miss == "default" else self._continuation
        if self._on_miss == "default":
            return ExchangeMatch("default")
        answer = self.script.conversations.answer(step or "", call.request, self._continuation, self._mark)
        return ExchangeMatch("default", answer.stored, given=answer.response if answer.stored is None else None)

    def end(self) -> None:
        """Answer nothing any more: a run that was stopped must not go on, even if it has swallowed the refusal."""
        self._has_ended = True

    def use(self, match: ExchangeMatch[Exchange]) -> None:
        super().use(match)
        self._run.use(match)

    def take_back(self, key: tuple[str, str]) -> None:
        """Make the last answer to such a request the next one again: it was lost on its way."""
        self._run.take_back(key)

    def turn(self, step: str | None, number: int) -> ExchangeMatch[Exchange] | None:
        """Return the answer of the `number`-th call of a step, from 0; after the last one, that one again.

        None in the clean run, or if the step has made no call there.
        """
        calls = [] if self._run.is_first else self.script.conversations.calls_of(step or "")
        return ExchangeMatch("step_id", calls[min(number, len(calls) - 1)].stored) if calls else None

    def tells_failure(self, request: Request) -> bool:
        """Return whether the request tells its model of a failure that the clean run did not have."""
        return not self._run.is_first and self.script.tells_failure(request.messages)


class RecordedTools(Source[ToolExchange]):
    """Answers tool calls from a recording: by the first unused exchange of the tool with these arguments, or with none.

    Args:
        finds_servers: whether a tool that was recorded over MCP, like `github.create_issue`, is also found by its name
            alone, if only one server has it.
    """

    def __init__(
        self,
        index: ExchangeIndex[ToolExchange],
        cursor: Cursor[ToolExchange] | None = None,
        *,
        finds_servers: bool = True,
    ) -> None:
        super().__init__(Cursor(index) if cursor is None else cursor)
        self.index, self._finds_servers = index, finds_servers

    def look_up(self, tool: str, fingerprint: str) -> ExchangeMatch[ToolExchange]:
        """Return what answers a call of a tool with these arguments, or else why nothing does."""
        match = self._cursor.match_key(tool, "step_id", fingerprint)
        if match is None and self._finds_servers and (recorded := self._tools_of_servers.get(tool)) is not None:
            match = self._cursor.match_key(recorded, "step_id", fingerprint)
        return _MISSING_TOOL if match is None else match

    def refusal(self, tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange]) -> RecordingMismatchError:
        """Return the error of a call that nothing answers: what is nearest, and in what it differs."""
        from offbook.recording.match.mismatch import tool_mismatch_error  # noqa: PLC0415 - only errors need it

        return tool_mismatch_error(tool, arguments, match, self.index)

    @cached_property
    def _tools_of_servers(self) -> dict[str, str]:
        """The keys of tools that were recorded over MCP, by the name of the tool alone, if one server has it."""
        keys = dict.fromkeys(stored.key for stored in self.index if "." in stored.key and not is_mcp_key(stored.key))
        names = Counter(key.partition(".")[2] for key in keys)
        return {key.partition(".")[2]: key for key in keys if names[key.partition(".")[2]] == 1}

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, without what MCP servers answered to other requests."""
        return [left for left in super().unused() if not is_mcp_key(left.key)]


class ScriptedTools(RecordedTools):
    """Answers the tool calls of one run of an exploration, along the `script` that the first run has written."""

    def __init__(self, index: ExchangeIndex[ToolExchange], script: Script[ToolExchange]) -> None:
        super().__init__(index)
        self._run = script.start_run()

    @property
    def is_clean(self) -> bool:
        """Whether this is the first run, which writes the script."""
        return self._run.is_first

    def look_up(self, tool: str, fingerprint: str) -> ExchangeMatch[ToolExchange]:
        key = (tool, fingerprint)
        scripted = self._run.next_answer(key)
        if scripted is not None:
            return scripted
        match = super().look_up(tool, fingerprint)
        if match.mismatch is not None or match.stored is None:
            return match
        if not self._run.accepts(key, match.stored.fingerprint):
            return ExchangeMatch(match.matched_by, match.stored, "drifted")
        return replace(match, script_key=key)

    def use(self, match: ExchangeMatch[ToolExchange]) -> None:
        super().use(match)
        self._run.use(match)
