"""Expressions in the Common Expression Language: checked token by token, then compiled and evaluated."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from offbook.errors import ExpressionError
from offbook.text import did_you_mean, shorten
from offbook.workflow.file.template import ValuePath, follow_path

if TYPE_CHECKING:
    import cel


MACROS = frozenset({"all", "exists", "exists_one", "filter"})
OWN_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "lower": lambda value: value.lower() if isinstance(value, str) else value,
    "strip": lambda value: value.strip() if isinstance(value, str) else value,
}
"""Functions of strings that CEL does not have. Other values stay as they are."""
FUNCTIONS = frozenset(
    {"contains", "double", "endsWith", "has", "int", "matches", "size", "startsWith", "string", *OWN_FUNCTIONS}
)
RESERVED_WORDS = frozenset({"true", "false", "null", "in"})
MAX_DEPTH = 32
MAX_PATTERNS = 4  # compiling one may take a fifth of a second, and every evaluation compiles it again
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<text>[rR](?:'[^'\r\n]*'|"[^"\r\n]*")|'(?:\\[^\r\n]|[^\\'\r\n])*'|"(?:\\[^\r\n]|[^\\"\r\n])*")
    |(?P<number>0x[0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
HINTS = {
    "map": "use 'filter' here, or a loop step that collects",
    "and": "write && for and",
    "or": "write || for or",
    "not": "write ! for not",
    "None": "write null",
    "True": "write true",
    "False": "write false",
}


class Token(Struct, frozen=True):
    """A token of an expression. `kind` is text, number, name or mark."""

    kind: str
    text: str
    start: int


class Mention(Struct, frozen=True):
    """A path in an expression, and the number of enclosing macro bodies."""

    path: ValuePath
    depth: int


class ExpressionWords(Struct, frozen=True):
    """The names and calls of an expression. `depth` is the depth to which macros are nested."""

    mentions: tuple[Mention, ...]
    called: tuple[str, ...]
    count: int
    depth: int

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths that it names outside of itself, each once, in order."""
        return tuple(dict.fromkeys(mention.path for mention in self.mentions))


def read_words(text: str, names: frozenset[str]) -> ExpressionWords:
    """Return the names and calls of `text`, which may use `names` and the variables of its own macros.

    Raises:
        ExpressionError: a token is invalid, a name or function is unknown, a name starts with '_', or the
            nesting is too deep.
    """
    if "'''" in text or '"""' in text:
        raise ExpressionError("three quotes in a row are not allowed")
    return _TokenWalk(list(_tokens(text)), names).words()


def _tokens(text: str) -> Iterator[Token]:
    end = 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None:
            raise ExpressionError(f"unexpected {text[end]!r} at character {end + 1}", hint=_mark_hint(text[end]))
        kind = str(match.lastgroup)
        if kind != "space":
            yield Token(kind, match[0], end)
        end = match.end()


def _mark_hint(mark: str) -> str:
    return {"=": "write == to compare", "&": "write && for and", "|": "write || for or"}.get(mark, "")


class _TokenWalk:
    """One pass over the tokens."""

    def __init__(self, tokens: list[Token], names: frozenset[str]) -> None:
        self._tokens, self._names = tokens, names
        self._closing: list[str] = []
        self._bound: list[tuple[int, str]] = []
        self._mentions: list[Mention] = []
        self._called: list[str] = []
        self._depth = 0

    def words(self) -> ExpressionWords:
        for at, token in enumerate(self._tokens):
            if token.kind == "name":
                self._name(at, token.text)
            elif token.kind == "mark":
                self._mark(at, token)
        return ExpressionWords(tuple(self._mentions), tuple(self._called), len(self._tokens), self._depth)

    def _text(self, at: int) -> str:
        """Return the text of the token at a position; empty outside the expression, and for string literals."""
        is_word = 0 <= at < len(self._tokens) and self._tokens[at].kind != "text"
        return self._tokens[at].text if is_word else ""

    def _name(self, at: int, name: str) -> None:
        if name.startswith("_"):
            raise ExpressionError(f"{name!r} starts with '_', which is not allowed")
        if self._text(at + 1) == "(":
            self._call(at, name)
        elif self._text(at - 1) != "." and name not in RESERVED_WORDS:
            self._mention(at, name)

    def _call(self, at: int, name: str) -> None:
        if name not in FUNCTIONS | MACROS:
            hint = HINTS.get(name) or did_you_mean(name, FUNCTIONS | MACROS, kind="functions")
            raise ExpressionError(f"there is no function {name!r}", hint=hint)
        self._called.append(name)
        if name == "matches" and (self._bound or self._called.count(name) > MAX_PATTERNS):
            reason = f"'matches' is allowed at most {MAX_PATTERNS} times, and not inside {', '.join(sorted(MACROS))}"
            raise ExpressionError(reason, hint="use contains, startsWith or endsWith")
        if name in MACROS:
            self._bound.append((len(self._closing), self._text(at + 2)))
            self._depth = max(self._depth, len(self._bound))

    def _mention(self, at: int, name: str) -> None:
        if any(name == bound for _, bound in self._bound):
            return
        if name not in self._names:
            in_state = f"did you mean 'state.{name}'?" if "state" in self._names else ""
            hint = HINTS.get(name) or did_you_mean(name, self._names) or in_state
            raise ExpressionError(f"there is no name {name!r}", hint=hint)
        self._mentions.append(Mention((name, *self._selected(at + 1)), len(self._bound)))

    def _selected(self, at: int) -> Iterator[str]:
        """Yield the literal keys and positions that follow a name."""
        while True:
            is_field = self._text(at) == "." and self._text(at + 2) != "(" and self._tokens[at + 1 : at + 2]
            is_index = self._text(at) == "[" and self._text(at + 2) == "]"
            if is_field:
                yield self._text(at + 1)
                at += 2
            elif is_index and (key := _literal(self._tokens[at + 1])) is not None:
                yield key
                at += 3
            else:
                return

    def _mark(self, at: int, token: Token) -> None:
        if token.text in _PAIRS:
            self._closing.append(_PAIRS[token.text])
            if len(self._closing) > MAX_DEPTH:
                raise ExpressionError(f"brackets are nested more than {MAX_DEPTH} levels deep")
        elif token.text in _PAIRS.values():
            if not self._closing or self._closing.pop() != token.text:
                raise ExpressionError(f"unexpected {token.text!r} at character {token.start + 1}")
            if self._bound and self._bound[-1][0] == len(self._closing):
                self._bound.pop()


def _literal(token: Token) -> str | None:
    """Return the key or position of a literal token without escapes, else None."""
    if token.kind == "number" and token.text.isdecimal():
        return token.text
    is_plain = token.kind == "text" and token.text[0] in "'\"" and "\\" not in token.text
    return token.text.strip(token.text[0]) if is_plain else None


MAX_CHARS = 2_000
MAX_NESTED_MACROS = 2
MAX_VALUE_DEPTH = 100
MAX_EFFORT = 10_000_000
CHARS_A_STEP = 64
_PATH = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*|\[[0-9]+\])*")
_COMPARISON = re.compile(rf"(?:{_PATH.pattern})[ ]*(?P<sign>==|!=)[ ]*(?P<mark>['\"])(?P<text>[^'\"\\\r\n]*)(?P=mark)")
"""The comparison with a text that most routers make, for which the library of CEL is not loaded."""
_MISSING = object()
SCOPE_NAMES = frozenset({"state", "item", "index"})


class Expression:
    """A compiled expression. `paths` has the paths that it names, such as `("state", "kind")`.

    An expression that is a path gives the value itself; mappings in other results have sorted keys. It sees plain
    values only, and its evaluation is bounded: there is no `map`, which can double a string with every ten
    characters, other macros nest at most twice, patterns are few and outside of macros, and lists that are too
    long are refused before evaluation.
    """

    def __init__(self, text: str, words: ExpressionWords) -> None:
        self.text, self.paths = text, words.paths
        self._words = words
        has_one_path = len(words.paths) == 1
        self._is_path = has_one_path and _PATH.fullmatch(text.strip()) is not None
        self._comparison = _COMPARISON.fullmatch(text.strip()) if has_one_path else None
        if not self._is_path and self._comparison is None:
            _ = self._program  # a syntax error is found here

    @cached_property
    def _program(self) -> cel.Program:
        return _compile(self.text)

    @classmethod
    def parse(cls, text: str, *, names: Iterable[str] = SCOPE_NAMES) -> Expression:
        """Compile an expression, which may refer to `names` only.

        Raises:
            ExpressionError: it is too long, nested too deep, not CEL, or refers to another name.
        """
        if len(text) > MAX_CHARS:
            raise ExpressionError(f"the expression has {len(text)} characters, more than {MAX_CHARS}")
        words = read_words(text, frozenset(names))
        if words.depth > MAX_NESTED_MACROS:
            raise ExpressionError(f"macros are nested {words.depth} deep, more than {MAX_NESTED_MACROS}")
        return cls(text, words)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Evaluate the expression with the values in `scope`.

        Raises:
            ExpressionError: a key is missing, types do not match, or the evaluation would take too long.
        """
        visible = self._visible(scope)
        value = _value_at(self.paths[0], visible) if self._is_path or self._comparison else _MISSING
        if self._is_path and value is not _MISSING:
            return value
        if self._comparison and value is not _MISSING:
            is_equal = isinstance(value, str) and value == self._comparison["text"]
            return is_equal == (self._comparison["sign"] == "==")
        if _is_deeper(visible, MAX_VALUE_DEPTH):
            raise ExpressionError(f"{self.text!r} names a value nested more than {MAX_VALUE_DEPTH} levels deep")
        if self._words.depth and _effort(self._words, visible) > MAX_EFFORT:
            raise ExpressionError(f"{self.text!r} would take too long", hint="shorten the lists that it iterates over")
        try:
            return _sort_keys(self._program.execute(self._context(visible)))
        except KeyError as error:
            raise ExpressionError(f"{self.text!r}: there is no key {error}", hint="test it with has(…) first") from None
        except Exception as error:
            reason = str(error).splitlines()[0].partition(". ")[0] or type(error).__name__
            hint = self._kinds(visible) if "overload" in reason else ""
            raise ExpressionError(f"{self.text!r}: {reason}", hint=hint) from None

    def _context(self, visible: Mapping[str, Any]) -> Any:
        """Return what the library evaluates with: the values, and functions of ours that the expression calls."""
        called = OWN_FUNCTIONS.keys() & self._words.called
        if not called:
            return visible
        context = sys.modules["cel.cel"].Context(variables=dict(visible))
        for name in called:
            context.add_function(name, OWN_FUNCTIONS[name])
        return context

    def is_true(self, scope: Mapping[str, Any]) -> bool:
        """Whether the expression is true.

        Raises:
            ExpressionError: it cannot be evaluated, or is neither true nor false.
        """
        value = self.evaluate(scope)
        if not isinstance(value, bool):
            raise ExpressionError(f"{self.text!r} is {_show_value(value)}, which is neither true nor false")
        return value

    def elements(self, scope: Mapping[str, Any]) -> list[Any]:
        """Evaluate the expression to a list.

        Raises:
            ExpressionError: it cannot be evaluated, or is not a list.
        """
        value = self.evaluate(scope)
        if not isinstance(value, list):
            raise ExpressionError(f"{self.text!r} is {_show_value(value)}, which is not a list")
        return value

    def _kinds(self, visible: Mapping[str, Any]) -> str:
        """Return the types of the values that the expression names."""
        return ", ".join(f"{'.'.join(path)} is {_kind(_value_at(path, visible))}" for path in self.paths)

    def _visible(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of the scope that the expression names, because the library copies all it gets."""
        visible: dict[str, Any] = {}
        for name, *keys in self.paths:
            whole = scope.get(name)
            if not keys or not isinstance(whole, Mapping):
                visible |= {name: whole} if name in scope else {}
            elif visible.setdefault(name, {}) is not whole and keys[0] in whole:
                visible[name][keys[0]] = whole[keys[0]]
        return visible


def _effort(words: ExpressionWords, visible: Mapping[str, Any]) -> int:
    """Return an upper bound of the steps that an evaluation with macros takes.

    A range is at most as long as all named values together. A macro body costs its words, and the weight of
    the values that it names outside; over all rounds, the elements themselves weigh as much as their list. A
    filter copies its elements so far in every round.
    """
    values = [_value_at(mention.path, visible) for mention in words.mentions]
    weights = [_weight(value) for value in values]
    total, longest = words.count + sum(weights), words.count + sum(map(_longest, values))
    inside = sum(weight for weight, mention in zip(weights, words.mentions, strict=True) if mention.depth)
    copied = words.called.count("filter") * total // 2
    body = words.count + inside + copied
    return int(longest**words.depth * body + words.count * total * longest ** (words.depth - 1))


def _value_at(path: ValuePath, visible: Mapping[str, Any]) -> Any:
    """Return the value at the path, or `_MISSING`."""
    value, depth = follow_path(path, visible)
    return value if depth == len(path) else _MISSING


def _sort_keys(value: Any) -> Any:
    """Return the value with sorted keys in its mappings: the library returns them in random order."""
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value, key=str)}
    return [_sort_keys(element) for element in value] if isinstance(value, list) else value


def _children(value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested deeper than `levels`; the library would overflow the stack and end the process."""
    return levels < 0 or any(_is_deeper(child, levels - 1) for child in _children(value))


def _weight(value: Any) -> int:
    if isinstance(value, str):
        return 1 + len(value) // CHARS_A_STEP
    return 1 + sum(map(_weight, _children(value)))


def _longest(value: Any) -> int:
    """Return the length of the longest list or mapping in a value."""
    children = _children(value)
    return max(len(children), max(map(_longest, children), default=0))


def _compile(text: str) -> cel.Program:
    try:
        return _compiler()(text)
    except ValueError as error:
        raise ExpressionError(_syntax_reason(str(error)), hint="expressions are CEL: state.kind == 'a'") from None


@cache
def _compiler() -> Callable[[str], cel.Program]:
    """Return the library's `compile`, loaded with the first expression.

    Only the compiled module is loaded: `import cel` also imports its command line, which takes ten times as long.
    """
    name, package = "cel.cel", find_spec("cel")
    if package is None:
        from offbook.installed import install_hint  # noqa: PLC0415 - most machines have it

        reason = "this expression needs the package common-expression-language"
        raise ExpressionError(reason, hint=f"{install_hint('workflows')}; state.key and state.key == 'text' need none")
    spec = None if package is None else PathFinder.find_spec(name, package.submodule_search_locations)
    if spec is not None and spec.loader is not None and name not in sys.modules:
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    compile_text: Callable[[str], cel.Program] = sys.modules[name].compile
    return compile_text


def _syntax_reason(message: str) -> str:
    """Return the parser's reason without its picture of the text and its list of expected tokens."""
    _, separator, details = message.partition("ERROR: <input>:")
    if not separator:
        return "this is not an expression"
    position, _, reason = details.partition(": ")
    first = reason.splitlines()[0].partition(" expecting ")[0].removeprefix("Syntax error: ")
    return f"{first} at character {position.partition(':')[2]}"


def _kind(value: object) -> str:
    kinds = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "a list"}
    if value is None or value is _MISSING:
        return "null"
    return kinds.get(type(value), "a mapping")


def _show_value(value: object) -> str:
    return shorten(repr(value), 60)
