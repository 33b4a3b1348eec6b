"""The source of answers in an exploration: the script of its clean run, and the continuation beyond it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Literal

import orjson
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.errors import RecordingMismatchError
from offbook.faults.log import FaultLog
from offbook.messages import JsonObject, Request
from offbook.recording.format.document import E
from offbook.recording.format.exchange import Exchange, ToolExchange, hash_arguments
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.match.continuation import Continuation, ConversationScript, ScriptedCall, WrittenAnswers
from offbook.recording.match.conversation import tells_failure
from offbook.recording.match.cursor import AlikeArguments, ExchangeMatch, RequestKey
from offbook.recording.match.folders import SAME_FOLDERS
from offbook.recording.stores.store import ExchangeIndex, StoredExchange
from offbook.session.call import Call
from offbook.session.sources import MISSING, MISSING_TOOL, RecordedModels, RecordedTools
from offbook.session.tape import Tape
from offbook.tools.effects import UNDECLARED, ToolDeclaration

NO_ANSWER = -1
"""The id in a line for an unrecorded answer, such as to a request for a list of models."""


class ScriptLine(Struct, frozen=True):
    """A line of a script for another process: the request, the id of its answer, and of a model call the request."""

    key: RequestKey
    answer: int
    fields: bytes = b""


class Script(Generic[E]):
    """The answers that the first run got, in order. Later runs with equal requests get equal answers.

    `log` lists the requests of that run with their answers, in order.
    """

    def __init__(self) -> None:
        self.log: list[tuple[RequestKey, ExchangeMatch[E]]] = []
        self._answers: dict[RequestKey, list[ExchangeMatch[E]]] = {}
        self._has_started = False

    def start_run(self) -> ScriptedRun[E]:
        """Return a run: the first writes the script, the others follow it from its beginning."""
        is_first, self._has_started = not self._has_started, True
        return ScriptedRun(self, is_first=is_first)

    def add(self, key: RequestKey, answer: ExchangeMatch[E]) -> None:
        """Append an answer to the script."""
        self.log.append((key, answer))
        self._answers.setdefault(key, []).append(answer)

    def answers_after(self, key: RequestKey, tool: str, call: int) -> list[ExchangeMatch[E]]:
        """Return the answers to such a request after that tool call, counted from 1."""
        places = [place for place, (each, _) in enumerate(self.log) if tool in (each[0], each[0].rpartition(".")[2])]
        start = places[min(call, len(places)) - 1] if places else len(self.log)
        return [match for each, match in self.log[start + 1 :] if each == key]

    def answers_to(self, key: RequestKey) -> list[ExchangeMatch[E]] | None:
        """Return the answers to such a request, in order, or None if it was never made."""
        return self._answers.get(key)

    @property
    def lines(self) -> tuple[ScriptLine, ...]:
        """The script for another process with the same recording."""
        return tuple(
            ScriptLine(key, NO_ANSWER if match.stored is None else match.stored.id, match.fields)
            for key, match in self.log
        )

    def load(self, lines: Sequence[ScriptLine], index: ExchangeIndex[E]) -> None:
        """Adopt the script that the first run wrote in another process, for all further runs."""
        self._has_started = True
        wanted = {line.answer for line in lines}
        answers = {stored.id: stored for stored in index if stored.id in wanted}
        for line in lines:
            found = answers.get(line.answer)
            self.add(line.key, ExchangeMatch("step_id", found, script_key=line.key, fields=line.fields))


class ScriptedRun(Generic[E]):
    """One run along a script: equal requests get their answers in order, the last one repeatedly.

    The first run gets nothing from the script, and adds the answers it uses. Another run's answers outside the script
    are for this run only.
    """

    def __init__(self, script: Script[E], *, is_first: bool) -> None:
        self.is_first = is_first
        self._script, self._own_answers = script, dict[RequestKey, ExchangeMatch[E]]()
        self._served, self._served_after = Counter[RequestKey](), Counter[RequestKey]()

    def next_answer(self, key: RequestKey) -> ExchangeMatch[E] | None:
        """Return the next answer to such a request, or None if it was never made. It stays next until used."""
        if self.is_first:
            return None
        answers = self._script.answers_to(key)
        if answers is None:
            return self._own_answers.get(key)
        return answers[min(self._served[key], len(answers) - 1)]

    def next_answer_after(self, key: RequestKey, tool: str, call: int) -> ExchangeMatch[E] | None:
        """Return the next answer to such a request among those after that tool call, or None."""
        answers = self._script.answers_after(key, tool, call)
        return answers[min(self._served_after[key], len(answers) - 1)] if answers else None

    def last_answer_before(self, key: RequestKey, tool: str, call: int) -> ExchangeMatch[E] | None:
        """Return the last answer to such a request before that tool call, or None."""
        later = self._script.answers_after(key, tool, call)
        before = [each for each in self._script.answers_to(key) or () if not any(each is other for other in later)]
        return before[-1] if before else None

    def is_from_after(self, key: RequestKey, tool: str, call: int) -> bool:
        """Return whether the next answer to such a request came after that tool call."""
        later, following = self._script.answers_after(key, tool, call), self.next_answer(key)
        return any(each is following for each in later)

    def was_made(self, key: RequestKey) -> bool:
        """Return whether the first run made such a request."""
        return not self.is_first and self._script.answers_to(key) is not None

    def note_after(self, key: RequestKey) -> None:
        """Count an answer as served that came after a tool call."""
        self._served_after[key] += 1

    def accepts(self, key: RequestKey, fingerprint: str | None) -> bool:
        """Return whether a recorded exchange outside the script may answer: only one of the exact request.

        In the first run any may, as in an ordinary replay.
        """
        return self.is_first or fingerprint == key[1]

    def use(self, match: ExchangeMatch[E]) -> None:
        """Count the answer as served."""
        key = match.script_key
        if self.is_first:
            self._script.add(key, match)
            return
        if self._script.answers_to(key) is None:
            self._own_answers[key] = match
        self._served[key] += 1

    def take_back(self, key: RequestKey) -> None:
        """Make the last answer the next one again: it was lost on its way."""
        if self._served[key] > 0:
            self._served[key] -= 1


class ModelScript(Script[Exchange]):
    """The script of the models and APIs of an exploration, and the conversations that its model calls are part of."""

    def __init__(self) -> None:
        super().__init__()
        self.conversations = ConversationScript(self._model_calls)

    def key_of(self, step: str, fingerprint: str) -> RequestKey | None:
        """Return the request of a step that an exchange with this fingerprint answered, or None."""
        answered = ((key, match.stored) for key, match in self.log if key[0] == step)
        return next((key for key, stored in answered if stored is not None and stored.fingerprint == fingerprint), None)

    def tells_failure(self, messages: Sequence[JsonObject]) -> bool:
        """Return whether a request reports a failure to its model that the clean run did not have."""
        return tells_failure(messages, self.conversations.known_texts)

    def _model_calls(self) -> Iterable[ScriptedCall]:
        return [
            ScriptedCall(key, match.fields, match.stored)
            for key, match in self.log
            if match.stored is not None and match.fields
        ]


OnMiss = Literal["explore", "stop", "default", "live"]
"""The answer to an unrecorded call of an exploration: a continuation; nothing, which stops the run; the default
response; or a real model.
"""


class ScriptedModels(RecordedModels):
    """Answers the calls of one run of an exploration.

    The first run is a strict replay and writes the `script`: the answers to each request. In later runs equal requests
    get these answers in order, the last one repeatedly, so an agent may retry or start over. So do requests with the
    same messages to another model.

    A request outside the script is a miss, unless the recording has the exact request, or a hand-written answer for it.
    `on_miss` is the policy. `mark` is part of the text of a continuation that gives up. `continued_by` names the answer
    to misses: a continuation, `default` or `live`, or "". A run that `has_ended` because of a miss gets no further
    answers, not even from tools.
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
        self.script, self.continued_by, self.has_ended = script, "", False
        self.on_miss = on_miss
        self._run, self._continuation, self._mark = script.start_run(), continuation, mark
        self._written = WrittenAnswers(lambda: tape.written)

    @property
    def is_clean(self) -> bool:
        """Whether this is the first run, which writes the script."""
        return self._run.is_first

    def _look_up(self, call: Call, step: str | None) -> ExchangeMatch[Exchange]:
        if self.has_ended:
            return MISSING
        key = (step or "", call.request_hash)
        scripted = self._run.next_answer(key)
        if scripted is not None:
            return scripted
        match = super()._look_up(call, step)
        is_answer = match.mismatch is None
        if is_answer and self._run.accepts(key, None if match.stored is None else match.stored.fingerprint):
            is_model_call = self._run.is_first and call.request is not None
            return replace(match, script_key=key, fields=call.fields if is_model_call else b"")
        return self._answer_nearby(call, key) or (MISSING if is_answer else match)

    def _answer_nearby(self, call: Call, key: tuple[str, str]) -> ExchangeMatch[Exchange] | None:
        """Return the answer to a request with only harmless differences, or with the same messages to another model, or
        a hand-written answer, or None.
        """
        if self._run.is_first:
            return None
        fields, conversations = orjson.loads(call.fields), self.script.conversations
        for fingerprint, _ in self.tape.alike.find(fields, self._began):
            if (alike := self.script.key_of(key[0], fingerprint)) is not None:
                return self._run.next_answer(alike)
        if call.request is None:
            return None
        same = conversations.same_conversation(key[0], fields)
        if same is not None:
            return self._run.next_answer(same)
        if not self.tape.written:  # which condition holds takes a while to find out
            return None
        written = self._written.find(key, conversations.condition(key[0], fields))
        return None if written is None else ExchangeMatch("step_id", written, script_key=key)

    def refusal(self, call: Call, step: str | None, match: ExchangeMatch[Exchange]) -> RecordingMismatchError:
        """Return the error with the nearest entry, or without it after the first answered miss.

        Only the first miss is reported, and finding the nearest entry is slow.
        """
        if self.continued_by and self.can_continue and match.mismatch is not None:
            return RecordingMismatchError("the run has diverged before", kind=match.mismatch)
        return super().refusal(call, step, match)

    def judges(self, fingerprint: str) -> bool:
        return not self.has_ended and super().judges(fingerprint)

    @property
    def can_continue(self) -> bool:
        """Whether misses are answered: not in the clean run, and not after the run was to stop."""
        return not self.has_ended and not self._run.is_first and self.on_miss != "stop"

    def continued(self, call: Call, step: str | None) -> ExchangeMatch[Exchange] | None:
        """Return the answer to a missed call, or None to refuse it and all later calls.

        Only the caller can ask a real model instead.
        """
        if not self.can_continue or call.is_message or self.on_miss == "live":
            self.has_ended = self.has_ended or call.request is not None or call.is_message
            return None
        if call.request is None:
            return ExchangeMatch("default")
        self.continued_by = "default" if self.on_miss == "default" else self._continuation
        if self.on_miss == "default":
            return ExchangeMatch("default")
        answer = self.script.conversations.answer(step or "", call.request, self._continuation, self._mark)
        match = ExchangeMatch("default", answer.stored, given=answer.response if answer.stored is None else None)
        return match.with_folders(call.renames)

    def end(self) -> None:
        """Answer nothing from now on: a stopped run must not continue, even if it has swallowed the refusal."""
        self.has_ended = True

    def use(self, match: ExchangeMatch[Exchange]) -> None:
        super().use(match)
        self._run.use(match)

    def take_back(self, key: tuple[str, str]) -> None:
        """Make the last answer to such a request the next one again, because it was lost."""
        self._run.take_back(key)

    def turn(self, step: str | None, number: int) -> ExchangeMatch[Exchange] | None:
        """Return the answer of the `number`-th call of a step, from 0; the last one repeatedly.

        None in the clean run, or if the step made no call there.
        """
        calls = [] if self._run.is_first else self.script.conversations.calls_of(step or "")
        return ExchangeMatch("step_id", calls[min(number, len(calls) - 1)].stored) if calls else None

    def tells_failure(self, request: Request) -> bool:
        """Return whether the request reports a failure to its model that the clean run did not have."""
        return not self._run.is_first and self.script.tells_failure(request.messages)


_READING = re.compile(
    r"(?:get|find|list|search|read|fetch|look_?up|check|query|show|status|poll|describe|count|exists|view|load|retrieve|verify)"
    r"(?![a-z])"
)
"""The beginnings of undeclared tools' names that suggest reading."""


class UnseenEffect(Struct, frozen=True):
    """A tool that ran in its `call`-th call, as a plan counts it, without a whole answer for its caller."""

    tool: str
    call: int


class World:
    """The effects of one run whose answers were lost, garbled or empty according to `faults`.

    Its tools are known by their declarations. An undeclared tool reads if its name says so.
    """

    def __init__(self, faults: FaultLog, declarations: Mapping[str, ToolDeclaration]) -> None:
        self._faults, self._declarations = faults, declarations

    @property
    def fired_count(self) -> int:
        """The number of fired faults."""
        return len(self._faults.fired)

    def unseen_before(self, tool: str) -> UnseenEffect | None:
        """Return the effect that a call of `tool` would now reveal, its caller's last unseen one.

        None without one, or if the tool does not read.
        """
        if not self._faults.fired or not self._reads(tool):
            return None
        unseen = (
            UnseenEffect(line.at.tool, line.at.call or 1)
            for line in reversed(self._faults.fired)
            if line.at.tool is not None
            and line.fault.is_for_tools
            and getattr(line.fault, "runs_tool", False)
            and not {"loses_answer", "breaks_result"}.isdisjoint(line.fault.traits)
            and self._declared(line.at.tool).has_effect
        )
        return next(unseen, None)

    def prevented_before(self, tool: str, ran: Mapping[str, int]) -> UnseenEffect | None:
        """Return the last prevented effect, which a call of `tool` must not reveal, or None.

        `ran` are the tools that ran, with the number of faults fired by then.
        """
        if not self._faults.fired or not self._reads(tool):
            return None
        prevented = (
            UnseenEffect(line.at.tool, line.at.call or 1)
            for place, line in reversed(list(enumerate(self._faults.fired)))
            if line.at.tool is not None
            and line.fault.is_for_tools
            and not getattr(line.fault, "runs_tool", True)
            and self._declared(line.at.tool).has_effect
            and ran.get(line.at.tool.rpartition(".")[2], 0) <= place
        )
        return next(prevented, None)

    def _reads(self, tool: str) -> bool:
        declared = self._declared(tool)
        if declared == UNDECLARED:
            return _READING.match(tool.rpartition(".")[2].lower()) is not None
        return declared.read_only

    def _declared(self, tool: str) -> ToolDeclaration:
        """Return a tool's declaration, which may omit its server's name."""
        return self._declarations.get(tool, self._declarations.get(tool.rpartition(".")[2], UNDECLARED))


STATELESS = World(FaultLog(), {})
"""The world of runs without faults."""


NEAREST_RESULT, DEFAULT_RESULT = "nearest result", "default result"
"""The result that answered a tool call that was never recorded."""


class ScriptedTools(RecordedTools):
    """Answers the tool calls of one run of an exploration, along the `script` of the first run.

    A call outside the script is a miss, unless the recording has the exact call. The run's `models` decide what
    follows: the call gets the result of the most similar recorded call, or the default, or the run stops, for models as
    well. `diverged` are the errors of the misses, and `continued_by` names their answers: a nearest or a default
    result, or "". `unknown` has the unknown results of reads after unseen effects, once each.
    """

    def __init__(
        self, models: ScriptedModels, script: Script[ToolExchange], *, alike: AlikeArguments | None = None
    ) -> None:
        super().__init__(models.tape, alike=alike)
        self.diverged: list[RecordingMismatchError] = []
        self.continued_by = ""
        self.unknown: dict[str, None] = {}
        self._ran: dict[str, int] = {}
        self._run, self._models, self._world = script.start_run(), models, STATELESS

    def remember(self, world: World) -> None:
        """Answer according to this world, with its unseen effects."""
        self._world = world

    def find(self, tool: str, arguments: JsonObject, fingerprint: str = "") -> ExchangeMatch[ToolExchange]:
        """Return the answer to a call: see `RecordedTools.find`. A match by `default` is not used up.

        Raises:
            RecordingMismatchError: the run must stop.
        """
        if is_mcp_key(tool):
            return super().find(tool, arguments, fingerprint)
        if self.folders is not SAME_FOLDERS:
            arguments, _ = self.as_recorded(arguments)
        if self._models.has_ended:
            raise self.refusal(tool, arguments, MISSING_TOOL)
        later = self._after_effect(tool, arguments, fingerprint)
        match = self.look_up(tool, arguments, fingerprint) if later is None else self._renamed(later)
        if match.mismatch is None:
            return match
        refusal = self.refusal(tool, arguments, match)
        self.diverged.append(refusal)
        if self._run.is_first or self._models.on_miss in ("stop", "live"):
            self._models.end()
            raise refusal
        return self._renamed(self.continued(tool, arguments, refusal))

    def _renamed(self, match: ExchangeMatch[ToolExchange]) -> ExchangeMatch[ToolExchange]:
        return match if self.folders is SAME_FOLDERS else match.with_folders(self.folders.renames())

    # After an effect whose answer was lost, an agent that reads back must not be told that nothing has happened: it
    # would be accused of the repeat that this leads to.
    def _after_effect(self, tool: str, arguments: JsonObject, fingerprint: str) -> ExchangeMatch[ToolExchange] | None:
        """Return the answer to a read after an unseen effect, or None without such an effect.

        It is a later recorded answer to the same call, or a hand-written one. Without either, the call is answered as
        before the effect, and noted as `unknown`.
        """
        effect = None if self._run.is_first else self._world.unseen_before(tool)
        key = (tool, fingerprint or hash_arguments(arguments))
        if effect is None:
            return self._before_prevented(key, arguments)
        if (later := self._run.next_answer_after(key, effect.tool, effect.call)) is not None:
            self._run.note_after(key)
            return later
        if (written := self._written(tool, arguments, effect.tool)) is not None:
            return ExchangeMatch("step_id", written, script_key=key)
        if self._run.was_made(key):
            entry = {"when": f"after {effect.tool}", "arguments": arguments, "result": None}
            text = f"the recording does not know what {tool} says after {effect.tool}; add it to _tools"
            self.unknown[f"{text}: {orjson.dumps({tool: [entry]}).decode()}"] = None
        return None

    def _before_prevented(self, key: RequestKey, arguments: JsonObject) -> ExchangeMatch[ToolExchange] | None:
        """Return the last answer to a read from before an effect that a fault has prevented, or None without one.

        A read whose only answers are from after such an effect is noted as `unknown`.
        """
        tool = key[0]
        effect = None if self._run.is_first else self._world.prevented_before(tool, self._ran)
        if effect is None or not self._run.is_from_after(key, effect.tool, effect.call):
            return None
        if (before := self._run.last_answer_before(key, effect.tool, effect.call)) is not None:
            return before
        shown = orjson.dumps(arguments).decode()
        text = f"the recording does not know what {tool} says without {effect.tool}, which did not run"
        self.unknown[f"{text}: {shown}"] = None
        return None

    def _written(self, tool: str, arguments: JsonObject, effect: str) -> StoredExchange[ToolExchange] | None:
        """Return the hand-written answer to a call after an effect: the entry with its arguments, or with none."""
        names, conditions = {tool, tool.rpartition(".")[2]}, {f"after {effect}", f"after {effect.rpartition('.')[2]}"}
        entries = [each for each in self.index if each.is_conditional and each.key in names]
        fitting = [each for each in entries if each.exchange.when in conditions]
        exact = (each for each in fitting if each.exchange.arguments == arguments)
        return next(exact, next((each for each in fitting if each.exchange.arguments is UNSET), None))

    def continued(
        self, tool: str, arguments: JsonObject, refusal: RecordingMismatchError
    ) -> ExchangeMatch[ToolExchange]:
        """Return the answer to a missed call: the most similar success, or none."""
        if self._models.on_miss == "default":
            self.continued_by = DEFAULT_RESULT
            return ExchangeMatch("default")
        from offbook.recording.match.mismatch import nearest_success  # noqa: PLC0415 - most runs have no miss

        self.continued_by = NEAREST_RESULT
        return ExchangeMatch("default", nearest_success(self.index, tool, arguments))

    def _look_up(self, tool: str, arguments: JsonObject, fingerprint: str = "") -> ExchangeMatch[ToolExchange]:
        if is_mcp_key(tool):
            return super()._look_up(tool, arguments, fingerprint)
        key = (tool, fingerprint or hash_arguments(arguments))
        scripted = self._run.next_answer(key)
        if scripted is not None:
            return scripted
        match = super()._look_up(tool, arguments, fingerprint)
        is_by_hand = match.stored is None or match.stored.fingerprint is None
        if match.mismatch is None and (self._run.is_first or not is_by_hand):
            return replace(match, script_key=key)
        alike = () if fingerprint or self._run.is_first else self._alike.find(match.key or tool, arguments)
        again = (self._run.next_answer((tool, each)) for each, _ in alike)
        unfit = ExchangeMatch(match.matched_by, match.stored, match.mismatch or "drifted")
        return next((each for each in again if each is not None), unfit)

    def use(self, match: ExchangeMatch[ToolExchange]) -> None:
        super().use(match)
        if match.stored is not None and not is_mcp_key(match.stored.key):
            self._run.use(match)
            self._ran[match.stored.key.rpartition(".")[2]] = self._world.fired_count
