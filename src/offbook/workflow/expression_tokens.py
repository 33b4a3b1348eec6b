"""The words of an expression: what it names, calls and goes through, before anything is evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from offbook.errors import ExpressionError
from offbook.wording import did_you_mean

MACROS = frozenset({"all", "exists", "exists_one", "filter"})
FUNCTIONS = frozenset({"contains", "double", "endsWith", "has", "int", "matches", "size", "startsWith", "string"})
WORDS = frozenset({"true", "false", "null", "in"})
MAX_DEPTH = 32
MAX_PATTERNS = 4  # reading one may take a fifth of a second, and it is read anew in every round
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
    """A word of an expression. `kind` is text, number, name or mark."""

    kind: str
    text: str
    start: int


class Mention(Struct, frozen=True):
    """A path that an expression names, and in how many macro bodies it stands."""

    path: tuple[str, ...]
    depth: int


class Words(Struct, frozen=True):
    """What an expression is made of. `depth` is how many macros are nested in one another."""

    mentions: tuple[Mention, ...]
    called: tuple[str, ...]
    count: int
    depth: int

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """What it names outside of itself, each once, in order."""
        return tuple(dict.fromkeys(mention.path for mention in self.mentions))


def read_words(text: str, names: frozenset[str]) -> Words:
    """What `text` is made of, where it may name only `names` and what its own macros bind.

    Raises:
        ExpressionError: it holds something that is no word of the language, a name or function that
            there is not, a name that starts with '_', or is nested too deep.
    """
    if "'''" in text or '"""' in text:
        raise ExpressionError("three quotes in a row are not allowed")
    return _Walk(list(_tokens(text)), names).words()


def _tokens(text: str) -> Iterator[Token]:
    end = 0
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ExpressionError(f"unexpected {text[end]!r} at character {end + 1}", hint=_mark_hint(text[end]))
        kind = str(found.lastgroup)
        if kind != "space":
            yield Token(kind, found[0], end)
        end = found.end()


def _mark_hint(mark: str) -> str:
    return {"=": "write == to compare", "&": "write && for and", "|": "write || for or"}.get(mark, "")


class _Walk:
    """One pass over the tokens."""

    def __init__(self, tokens: list[Token], names: frozenset[str]) -> None:
        self._tokens, self._names = tokens, names
        self._closing: list[str] = []
        self._bound: list[tuple[int, str]] = []
        self._mentions: list[Mention] = []
        self._called: list[str] = []
        self._depth = 0

    def words(self) -> Words:
        for at, token in enumerate(self._tokens):
            if token.kind == "name":
                self._name(at, token.text)
            elif token.kind == "mark":
                self._mark(at, token)
        return Words(tuple(self._mentions), tuple(self._called), len(self._tokens), self._depth)

    def _text(self, at: int) -> str:
        """The word at a position; empty outside, and for texts, which are no words of the language."""
        is_word = 0 <= at < len(self._tokens) and self._tokens[at].kind != "text"
        return self._tokens[at].text if is_word else ""

    def _name(self, at: int, name: str) -> None:
        if name.startswith("_"):
            raise ExpressionError(f"{name!r} starts with '_', which is not allowed")
        if self._text(at + 1) == "(":
            self._call(at, name)
        elif self._text(at - 1) != "." and name not in WORDS:
            self._mention(at, name)

    def _call(self, at: int, name: str) -> None:
        if name not in FUNCTIONS | MACROS:
            hint = HINTS.get(name) or did_you_mean(name, FUNCTIONS | MACROS, kind="functions")
            raise ExpressionError(f"there is no function {name!r}", hint=hint)
        self._called.append(name)
        if name == "matches" and (self._bound or self._called.count(name) > MAX_PATTERNS):
            reason = f"'matches' is allowed {MAX_PATTERNS} times at most, and not inside {', '.join(sorted(MACROS))}"
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
        """The keys and positions that follow a name, as far as they are written out."""
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
                raise ExpressionError(f"nested more than {MAX_DEPTH} levels deep")
        elif token.text in _PAIRS.values():
            if not self._closing or self._closing.pop() != token.text:
                raise ExpressionError(f"unexpected {token.text!r} at character {token.start + 1}")
            if self._bound and self._bound[-1][0] == len(self._closing):
                self._bound.pop()


def _literal(token: Token) -> str | None:
    """The key or position that a token is, if it is one without escapes."""
    if token.kind == "number" and token.text.isdecimal():
        return token.text
    is_plain = token.kind == "text" and token.text[0] in "'\"" and "\\" not in token.text
    return token.text.strip(token.text[0]) if is_plain else None
