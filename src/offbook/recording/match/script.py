"""The script of a run: the responses to each request, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Generic, TypeVar

E = TypeVar("E")


class ResponseScript(Generic[E]):
    """The answers of a run by what was asked, in the order in which they came."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], list[E]] = {}

    def add(self, name: str, asked: str, answer: E) -> None:
        """Write down what was answered: `name` is who asked or was asked, `asked` the fingerprint of what."""
        self._answers.setdefault((name, asked), []).append(answer)

    def script_reader(self) -> ScriptReader[E]:
        """A reader who begins at the beginning."""
        return ScriptReader(self._answers)


class ScriptReader(Generic[E]):
    """Reads a script to one run: equal requests get their answers in order, and then the last one again and again."""

    def __init__(self, answers: Mapping[tuple[str, str], list[E]]) -> None:
        self._answers = answers
        self._learnt: dict[tuple[str, str], list[E]] = {}
        self._given = Counter[tuple[str, str]]()

    def peek(self, name: str, asked: str) -> E | None:
        """The answer that is due, or None if such a thing was never asked. It stays due."""
        answers = self._answers.get((name, asked)) or self._learnt.get((name, asked))
        return None if answers is None else answers[min(self._given[name, asked], len(answers) - 1)]

    def take(self, name: str, asked: str) -> E | None:
        """The answer that is due, or None if such a thing was never asked."""
        answer = self.peek(name, asked)
        if answer is not None:
            self._given[name, asked] += 1
        return answer

    def give_back(self, name: str, asked: str) -> None:
        """Take back the last answer: it was lost on its way, and is due again."""
        if self._given[name, asked] > 0:
            self._given[name, asked] -= 1

    def learn(self, name: str, asked: str, answer: E) -> None:
        """Add an answer for this run alone, to what the script does not have. It counts as given."""
        self._learnt.setdefault((name, asked), []).append(answer)
        self._given[name, asked] += 1
