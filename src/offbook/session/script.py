"""What the clean run of an exploration was answered: later runs that ask the same get the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Generic

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.recording.format.document import E
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.continuation import ConversationScript, ScriptedCall
from offbook.recording.match.conversation import tells_failure
from offbook.recording.match.cursor import ExchangeMatch, RequestKey
from offbook.recording.stores.store import ExchangeIndex

NO_ANSWER = -1
"""The id in a line of an answer that is not recorded, as to a request for a list of models."""


class ScriptLine(Struct, frozen=True):
    """A line of a script for another process: the request, the id of its answer, and of a model call the request."""

    key: RequestKey
    answer: int
    fields: bytes = b""


class Script(Generic[E]):
    """The answers that the first run got, in order. Later runs that make the same requests get the same answers.

    `log` lists the requests of that run with their answers, in the order in which it got them.
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

    def answers_to(self, key: RequestKey) -> list[ExchangeMatch[E]] | None:
        """Return the answers to such a request, in order; None if it was never made."""
        return self._answers.get(key)

    @property
    def lines(self) -> tuple[ScriptLine, ...]:
        """The script for another process, which has the same recording."""
        return tuple(
            ScriptLine(key, NO_ANSWER if match.stored is None else match.stored.id, match.fields)
            for key, match in self.log
        )

    def load(self, lines: Sequence[ScriptLine], index: ExchangeIndex[E]) -> None:
        """Take over the script that the first run wrote in another process: every run from now on follows it."""
        self._has_started = True
        wanted = {line.answer for line in lines}
        answers = {stored.id: stored for stored in index if stored.id in wanted}
        for line in lines:
            found = answers.get(line.answer)
            self.add(line.key, ExchangeMatch("step_id", found, script_key=line.key, fields=line.fields))


class ScriptedRun(Generic[E]):
    """One run along a script: equal requests get their answers in order, and then the last one again and again.

    The first run gets nothing from the script, and adds to it what it uses. What another run uses that the script does
    not have is an answer for this run alone.
    """

    def __init__(self, script: Script[E], *, is_first: bool) -> None:
        self.is_first = is_first
        self._script, self._own_answers = script, dict[RequestKey, ExchangeMatch[E]]()
        self._served = Counter[RequestKey]()

    def next_answer(self, key: RequestKey) -> ExchangeMatch[E] | None:
        """Return the answer that is next for such a request, or None if it was never made. It stays next until used."""
        if self.is_first:
            return None
        answers = self._script.answers_to(key)
        if answers is None:
            return self._own_answers.get(key)
        return answers[min(self._served[key], len(answers) - 1)]

    def accepts(self, key: RequestKey, fingerprint: str | None) -> bool:
        """Return whether a recorded exchange may answer that is not in the script: only one of that very request.

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

    def tells_failure(self, messages: Sequence[JsonObject]) -> bool:
        """Return whether a request tells its model of a failure that the clean run did not have."""
        return tells_failure(messages, self.conversations.known_texts)

    def _model_calls(self) -> Iterable[ScriptedCall]:
        return [
            ScriptedCall(key, match.fields, match.stored)
            for key, match in self.log
            if match.stored is not None and match.fields
        ]
