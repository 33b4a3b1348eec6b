"""Expressions in the Common Expression Language, for conditions and lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from offbook.errors import ExpressionError
from offbook.workflow.expression_tokens import Words, read_words

if TYPE_CHECKING:
    import cel

MAX_CHARS = 2_000
MAX_NESTED_MACROS = 2
MAX_VALUE_DEPTH = 100
MAX_EFFORT = 10_000_000
CHARS_A_STEP = 64
_PATH = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*|\[[0-9]+\])*")
_NOTHING = object()
SCOPE_NAMES = frozenset({"state", "item", "index"})


class Expression:
    """A compiled expression. `paths` is what it names, such as `("state", "kind")`.

    A path gives the very value that it leads to; mappings in what is otherwise made have their keys sorted.
    It sees plain values only, and it ends: `map`, which can double a text with every ten characters, is left
    out, other macros nest at most twice, patterns are few and outside of macros, and lists too long for them
    are refused before evaluation.
    """

    def __init__(self, text: str, program: cel.Program, words: Words) -> None:
        self.text, self.paths = text, words.paths
        self._program, self._words = program, words
        self._is_path = _PATH.fullmatch(text.strip()) is not None and len(words.paths) == 1

    @classmethod
    def parse(cls, text: str, *, names: Iterable[str] = SCOPE_NAMES) -> Expression:
        """The expression that `text` is, which may refer to `names` only.

        Raises:
            ExpressionError: it is too long or too deep, no CEL, or refers to something else.
        """
        if len(text) > MAX_CHARS:
            raise ExpressionError(f"the expression has {len(text)} characters, more than {MAX_CHARS}")
        words = read_words(text, frozenset(names))
        if words.depth > MAX_NESTED_MACROS:
            raise ExpressionError(f"macros are nested {words.depth} deep, more than {MAX_NESTED_MACROS}")
        return cls(text, _compiled(text), words)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """What the expression gives for the values in `scope`.

        Raises:
            ExpressionError: a key is missing, types do not fit, or it would take too long.
        """
        seen = self._seen(scope)
        if self._is_path and (found := _reached(self.paths[0], seen)) is not _NOTHING:
            return found
        if _is_deeper(seen, MAX_VALUE_DEPTH):
            raise ExpressionError(f"{self.text!r} names a value nested more than {MAX_VALUE_DEPTH} levels deep")
        if self._words.depth and _effort(self._words, seen) > MAX_EFFORT:
            raise ExpressionError(f"{self.text!r} would take too long", hint="shorten the lists that it goes through")
        try:
            return _in_order(self._program.execute(seen))
        except KeyError as error:
            raise ExpressionError(f"{self.text!r}: there is no key {error}", hint="ask with has(…) first") from None
        except Exception as error:
            told = _first_line(error)
            hint = self._kinds(seen) if "overload" in told else ""
            raise ExpressionError(f"{self.text!r}: {told}", hint=hint) from None

    def is_true(self, scope: Mapping[str, Any]) -> bool:
        """Whether the expression holds.

        Raises:
            ExpressionError: it cannot be evaluated, or gives something other than true or false.
        """
        value = self.evaluate(scope)
        if not isinstance(value, bool):
            raise ExpressionError(f"{self.text!r} gives {_shown(value)}, which is neither true nor false")
        return value

    def elements(self, scope: Mapping[str, Any]) -> list[Any]:
        """The list that the expression gives.

        Raises:
            ExpressionError: it cannot be evaluated, or gives something other than a list.
        """
        value = self.evaluate(scope)
        if not isinstance(value, list):
            raise ExpressionError(f"{self.text!r} gives {_shown(value)}, which is no list")
        return value

    def _kinds(self, seen: Mapping[str, Any]) -> str:
        """What kinds of values the expression was given."""
        return ", ".join(f"{'.'.join(path)} is {_kind(_reached(path, seen))}" for path in self.paths)

    def _seen(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """As much of the scope as the expression names: all that is handed over is copied."""
        seen: dict[str, Any] = {}
        for name, *keys in self.paths:
            whole = scope.get(name)
            if not keys or not isinstance(whole, Mapping):
                seen |= {name: whole} if name in scope else {}
            elif seen.setdefault(name, {}) is not whole and keys[0] in whole:
                seen[name][keys[0]] = whole[keys[0]]
        return seen


def _effort(words: Words, seen: Mapping[str, Any]) -> int:
    """At least as many steps as an evaluation with macros takes.

    A range is no longer than all that is named together. A macro body costs its words, and the weight of
    what it names outside; over all rounds, the elements themselves weigh as much as their list. A filter
    copies what it has kept so far in every round.
    """
    values = [_reached(mention.path, seen) for mention in words.mentions]
    weights = [_weight(value) for value in values]
    total, longest = words.count + sum(weights), words.count + sum(map(_longest, values))
    inside = sum(weight for weight, mention in zip(weights, words.mentions, strict=True) if mention.depth)
    copied = words.called.count("filter") * total // 2
    body = words.count + inside + copied
    return int(longest**words.depth * body + words.count * total * longest ** (words.depth - 1))


def _reached(path: tuple[str, ...], seen: Mapping[str, Any]) -> Any:
    """The value at the path; nothing if there is none."""
    value: Any = seen
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _NOTHING
    return value


def _in_order(value: Any) -> Any:
    """The value with the keys of its mappings sorted: the library leaves their order to chance."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value, key=str)}
    return [_in_order(element) for element in value] if isinstance(value, list) else value


def _children(value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested deeper than that; the library would run out of stack, and the process with it."""
    return levels < 0 or any(_is_deeper(child, levels - 1) for child in _children(value))


def _weight(value: Any) -> int:
    if isinstance(value, str):
        return 1 + len(value) // CHARS_A_STEP
    return 1 + sum(map(_weight, _children(value)))


def _longest(value: Any) -> int:
    """The length of the longest list or mapping in a value."""
    children = _children(value)
    return max(len(children), max(map(_longest, children), default=0))


def _compiled(text: str) -> cel.Program:
    try:
        return _compiler()(text)
    except ValueError as error:
        raise ExpressionError(_syntax_complaint(str(error)), hint="the language is CEL: state.kind == 'a'") from None


@cache
def _compiler() -> Callable[[str], cel.Program]:
    """The library's, loaded when an expression is first read, as that takes a tenth of a second."""
    compile_text: Callable[[str], cel.Program] = import_module("cel").compile
    return compile_text


def _syntax_complaint(message: str) -> str:
    """What the parser says, without its picture of the text and its list of all that it might have expected."""
    _, found, complaint = message.partition("ERROR: <input>:")
    if not found:
        return "this is no expression"
    position, _, reason = complaint.partition(": ")
    first = reason.splitlines()[0].partition(" expecting ")[0].removeprefix("Syntax error: ")
    return f"{first} at character {position.partition(':')[2]}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].partition(". ")[0] or type(error).__name__


def _kind(value: object) -> str:
    kinds = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}
    if value is None or value is _NOTHING:
        return "nothing"
    return kinds.get(type(value), "a mapping")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
