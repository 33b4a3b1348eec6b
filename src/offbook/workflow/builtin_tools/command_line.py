"""A command line that needs no shell."""

from __future__ import annotations

import re

COMMAND_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"
"""The bare name of a command, without any path."""
OPERATORS = ";|&<>()\n"
_PIECE = re.compile(
    r"""(?P<space>[ \t\r]+)"""
    r"""|'(?P<single>[^']*)'"""
    r'''|"(?P<double>(?:[^"\\]|\\.)*)"'''
    r"""|\\(?P<escaped>.)"""
    r"""|(?P<plain>[^ \t\r'"\\;|&<>()\n$`*?]+)""",
    re.DOTALL,
)
_EXPANDED = re.compile(r"(?:[^\\$`]|\\.)*([$`])", re.DOTALL)
_ESCAPED = re.compile(r'\\([\\"$`])|\\\n')


def words(line: str) -> list[str]:
    """The words of a command line, quotes and backslashes as in a shell.

    Raises:
        ValueError: it has what only a shell could act on, or a quote without end; says what to do.
    """
    found: list[list[str]] = []
    line, at, is_inside = line.strip(), 0, False
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            raise ValueError(_complaint(line[at]))
        if piece["space"] is None:
            if not is_inside:
                found.append([])
            found[-1].append(_text(piece))
        at, is_inside = piece.end(), piece["space"] is None
    return ["".join(pieces) for pieces in found]


def _text(piece: re.Match[str]) -> str:
    """What a piece of a word stands for."""
    quoted = piece["double"]
    if quoted is None:
        return next(text for text in piece.groups() if text is not None)
    if expanded := _EXPANDED.match(quoted):
        raise ValueError(_complaint(expanded[1]))
    return _ESCAPED.sub(lambda escape: escape[1] or "", quoted)


def _complaint(sign: str) -> str:
    if sign in OPERATORS:
        return f"there is no shell, so {sign!r} does nothing; run one command at a time"
    if sign in "'\"\\":
        return f"after {sign} the command line does not go on as it should"
    return f"there is no shell, so {sign!r} stands for nothing else; put it in single quotes"
