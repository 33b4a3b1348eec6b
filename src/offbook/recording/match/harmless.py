"""The harmless differences between two requests: who asks, when, and where, but not what.

A value is harmless only by its shape and its speaker. Words of a user or a model always count. In a program's words
(its instructions, its tools, the blocks that it puts into messages) and in tool results, the shapes below may differ,
and a date only if it is that of the recorded run and of this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.recording.match.moments import MOMENT, RunTimes, says_now, says_only_now
from offbook.recording.redact.rules import mask_text

WHO_ASKS = frozenset(
    ("prompt_cache_key", "user", "safety_identifier", "metadata", "client_metadata", "session_id", "thread_id")
)
"""The fields of a request that say who asks."""

Speaker: TypeAlias = Literal["program", "block", "result", "user", "model"]
"""Who says a text: a program in its instructions or in a block of a message, a tool, a user, or a model."""

_SPEAKERS: dict[str, Speaker] = {
    "system": "program",
    "developer": "program",
    "tool": "result",
    "function": "result",
    "assistant": "model",
    "model": "model",
}
_PROGRAM_FIELDS = frozenset(
    ("instructions", "system", "system_instruction", "systemInstruction", "systemPrompt", "tools")
)
_RESULT_TYPES = frozenset(
    ("function_call_output", "tool_result", "custom_tool_call_output", "local_shell_call_output", "mcp_call")
)

_BLOCK = re.compile(
    r"<(env|environment|environment_context|environment_details|session_context|system-reminder|system_reminder"
    r"|hook_context|user_info|system|current-date|current_date)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
"""The blocks that coding agents put into messages of their users."""

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_RANDOM = rf"(?:[a-z]+[_-])?(?:{_UUID}|[0-9a-f]{{16,64}}|[0-9A-HJKMNP-TV-Z]{{26}}|[0-9A-Za-z]{{20,32}})"
_TEMPORARY = r"(?:/private)?(?:/tmp|/var/tmp|/var/folders/[\w+]{2}/[\w+]+/T)"
_END = r"(?![\w-])"
_TEMPORARY_FOLDER = (
    rf"(?<![\w.-]){_TEMPORARY}/(?:tmp(?=[a-z]*[\d_])[a-z0-9_]{{8}}|tmp\.\w{{6,10}}|pytest-of-[\w.-]+(?:/pytest-\d+)?)"
    + _END
)
"""Those of Python, mktemp and pytest."""


class _Shape(Struct, frozen=True):
    """A shape of values that may differ: its name, its speakers, and the pattern, whose group is the value.

    If a value has a `varying` part, only that part may differ. One that `names` something must stand for the same
    thing wherever it occurs, and the recorded answer must not name it.
    """

    kind: str
    pattern: str
    speakers: frozenset[Speaker] = frozenset(("block", "result"))
    varying: str = ""
    names: bool = False


_TOLD: frozenset[Speaker] = frozenset(("program", "block", "result"))
_ALL: frozenset[Speaker] = frozenset(("program", "block", "result", "user", "model"))

_SHAPES = (
    _Shape("a date or time", f"({MOMENT})", _TOLD | {"user"}),
    _Shape("an id", rf"(?:{_TEMPORARY}|/\.[a-z][\w-]*)(?:/[^\s/\"'`<>]+)*/({_UUID})" + _END, _TOLD, names=True),
    _Shape(
        "a temporary path",
        f"({_TEMPORARY_FOLDER})",
        _ALL,
        names=True,
    ),
    _Shape(
        "a temporary path",
        rf"(?<![\w.-])({_TEMPORARY}/(?:tmp[a-z0-9_]{{8}}|(?:claude|codex|gemini|qwen|opencode|offbook|node|npm)-[\w.]+))"
        + _END,
        _TOLD,
        names=True,
    ),
    _Shape(
        "an id",
        r"(?i:\b(?:session|thread|conversation|request|run|trace|span|turn|installation|instance|correlation|message"
        rf"|checkpoint|invocation|prompt)[ _-]?(?:id|uuid))[\"'`*_]*\s*(?:[:=]|is)?\s*[\"'`<(]?({_RANDOM})" + _END,
        _TOLD,
        names=True,
    ),
    _Shape("an id", r"\bChunk ID: ([0-9a-f]{4,12})\b"),
    _Shape("an id", r"\bin (?:the )?background with ID: (\w+)", names=True),
    _Shape("an id", r"\bagentId: (\w{6,})", names=True),
    _Shape("an id", r"<task-id>(\w+)</task-id>", names=True),
    _Shape("an id", r"\bProcess running with session ID (\d+)", names=True),
    _Shape("an id", r"^\[[^\]\n]{1,80} ([0-9a-f]{7,12})\] ", names=True),  # git commit
    _Shape("an id", r"^commit ([0-9a-f]{40})$", names=True),
    _Shape("an id", r"\bRecent commits:((?:\n[0-9a-f]{7,40} [^\n]*)+)", _TOLD, varying=r"^[0-9a-f]{7,40}(?= )"),
    _Shape(
        "a process",
        r"\b(?:P?PID|PGID|Background PIDs|[Pp]rocess(?: [Gg]roup)? ID|pid(?==| \d))[:=]?\s*(\d+(?:, ?\d+)*)\b",
        names=True,
    ),
    _Shape("a process", r"^\[\d+\] (\d{2,7})$", names=True),
    _Shape("a duration", r"\b[Ww]all[ _]time:? ([\d.]+) ?s"),
    _Shape("a duration", r"\bduration_(?:ms|s|seconds)\"?[:=]? ?([\d.]+)\b"),
    _Shape("a duration", r"\b(?:passed|failed|tests?|[Ff]inished|[Dd]one|[Cc]ompleted) in ([\d.]+) ?(?:m?s|seconds)\b"),
    _Shape("a duration", r"^(?:real|user|sys)\t(\d+m[\d.]+s)$"),
    _Shape("a duration", r"^(?:ok\s.*\t|--- (?:PASS|FAIL): .* \()([\d.]+s)\)?$"),
    _Shape("load or memory", r"\b(up +\d[^\n]*load averages?: [\d., ]+)", varying=r"[\d.,:\s]+|days?|min|users?"),
    _Shape(
        "load or memory",
        r"(?i:^[\W_]*(?:uptime|load average|(?:free|used|available) (?:memory|ram)"
        r"|(?:memory|ram|disk) (?:usage|used|free)))[\W_]*:([^\n]*\d[^\n]*)$",
        varying=r"[\d.,:]+ ?(?:[kKMGT]i?B?\b)?|days?|hours?|minutes?|min",
    ),
    _Shape("a version", r"\bOS Version: (?:Linux|Darwin) (\d+\.\d+\.\d+[\w.+~-]*)", _TOLD),
    _Shape("a version", r"\bLinux \S+ (\d+\.\d+\.\d+[\w.+~-]* #\d+[^\n]*)", varying=r"[^\n]+"),  # uname -a
    _Shape("a version", r"\bcc_version=([\w.]+);", _TOLD),
    _Shape("an id", r"\bcch=(\w+);", _TOLD),
)
_ANY_SHAPE = re.compile(
    "|".join(f"(?P<s{number}>{shape.pattern})" for number, shape in enumerate(_SHAPES)), re.MULTILINE
)
_VARYING = {shape.varying: re.compile(shape.varying, re.MULTILINE) for shape in _SHAPES if shape.varying}


_TEMPORARY_NAME = re.compile(_TEMPORARY_FOLDER)


def without_temporary_names(text: str) -> str:
    """Return a text in which the temporary folders that a user may name have one name."""
    return _TEMPORARY_NAME.sub("<temporary>", text)


class _Value(Struct, frozen=True):
    """A value in a text that has a shape: the shape, the text of the value, and its place."""

    shape: _Shape
    text: str
    start: int
    end: int


@lru_cache(maxsize=64)  # the texts of a request are compared with those of many recorded ones
def _values_in(text: str) -> tuple[_Value, ...]:
    values = []
    for match in _ANY_SHAPE.finditer(text):
        name = match.lastgroup or ""
        group = _ANY_SHAPE.groupindex[name] + 1
        values.append(_Value(_SHAPES[int(name[1:])], match[group], match.start(group), match.end(group)))
    return tuple(values)


class HarmlessDifference(Struct, frozen=True):
    """The kinds of differences between two equivalent requests, and the recorded names with their current ones."""

    kinds: tuple[str, ...]
    renamed: dict[str, str]

    @property
    def folders(self) -> dict[str, str]:
        """The recorded names of folders with those that are used now: answers can have these instead."""
        return {old: new for old, new in self.renamed.items() if old.startswith("/")}

    def is_named_in(self, text: str) -> bool:
        """Return whether a text has a name that is another one now, and not that of a folder."""
        others = self.renamed.keys() - self.folders.keys()
        return any(re.search(rf"(?<![\w.]){re.escape(old)}(?!\w)", text) for old in others)


PlainText: TypeAlias = Callable[[str], str]
"""Returns a text in which all home folders have one name."""


NO_NAMES: Mapping[str, str] = MappingProxyType({})


class Comparison:
    """Compares a recorded request with a present one. Its `difference` is set if it is harmless.

    `renamed` are the known names in the recording with those of this run.
    """

    def __init__(self, times: RunTimes, plain_text: PlainText, *, renamed: Mapping[str, str] = NO_NAMES) -> None:
        self._times, self._plain_text, self.renamed = times, plain_text, dict(renamed)
        self._kinds: dict[str, None] = {}
        self._model_texts: list[str] = []

    @property
    def difference(self) -> HarmlessDifference:
        changed = {old: new for old, new in self.renamed.items() if old != new}
        return HarmlessDifference(tuple(self._kinds), changed)

    def is_harmless(self, recorded: JsonObject, asked: JsonObject) -> bool:
        """Return whether two requests, or messages of a socket, ask the same."""
        same = self._is_alike(*self._without_who_asks(recorded, asked), speaker="user")
        return same and not any(map(self.difference.is_named_in, self._model_texts))

    def is_same_value(self, recorded: Any, asked: Any) -> bool:
        """Return whether two values that are no requests mean the same, such as the arguments of a tool."""
        return self._is_alike(recorded, asked, speaker="user")

    def _without_who_asks(self, recorded: JsonObject, asked: JsonObject) -> tuple[JsonObject, JsonObject]:
        """Return both without the fields that say who asks, and with their tools in one order."""
        if "path" in recorded:  # what plain HTTP has in such fields may be what is asked
            return recorded, asked
        for place in [each for each in ("extra", "response", "session") if each in recorded or each in asked]:
            one, other = recorded.get(place, {}), asked.get(place, {})
            if isinstance(one, dict) and isinstance(other, dict):
                inner = self._without_who_asks(one, other)
                recorded, asked = (
                    {name: value for name, value in each.items() if name != place} | ({place: rest} if rest else {})
                    for each, rest in zip((recorded, asked), inner, strict=True)
                )
        bare = [{name: value for name, value in each.items() if name not in WHO_ASKS} for each in (recorded, asked)]
        if any(recorded.get(name) != asked.get(name) for name in WHO_ASKS):
            self._kinds["who asks"] = None
        names = [_tool_names(each) for each in bare]
        if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
            self._kinds["the order of its tools"] = None
            bare = [each | {"tools": sorted(each["tools"], key=_tool_name)} for each in bare]
        return bare[0], bare[1]

    def _is_alike(self, old: Any, new: Any, *, speaker: Speaker) -> bool:
        if type(old) is not type(new):
            return False
        if isinstance(old, str):
            return self._is_alike_text(old, new, speaker)
        if isinstance(old, list):
            return len(old) == len(new) and all(
                self._is_alike(one, other, speaker=speaker) for one, other in zip(old, new, strict=True)
            )
        if not isinstance(old, dict):
            return bool(old == new)
        if old.keys() != new.keys():
            return False
        speaker = _speaker_of(new, speaker)
        return all(
            self._is_alike(value, new[name], speaker="program" if name in _PROGRAM_FIELDS else speaker)
            for name, value in old.items()
        )

    def _is_alike_text(self, old: str, new: str, speaker: Speaker) -> bool:
        if speaker == "model":
            self._model_texts.append(new)
        if old == new:
            return True
        if "<redacted" in old:
            new = mask_text(new)
        return self._has_harmless_values(old, new, speaker)

    def _has_harmless_values(self, old: str, new: str, speaker: Speaker) -> bool:
        """Return whether two texts differ only in values of known shapes that may differ here."""
        values, others = _values_in(old), _values_in(new)
        around, around_others = _around(old, values), _around(new, others)
        if around != around_others:
            if [self._plain_text(part) for part in around] != [self._plain_text(part) for part in around_others]:
                return False
            self._kinds["a home folder"] = None
        blocks, other_blocks = (_blocks_of(text) if speaker == "user" else [] for text in (old, new))
        for value, other in zip(values, others, strict=True):
            if value.text == other.text:
                continue
            own = "block" if _is_inside(value, blocks) and _is_inside(other, other_blocks) else speaker
            is_allowed = own in value.shape.speakers & other.shape.speakers and value.shape.kind == other.shape.kind
            if not is_allowed or not self._may_differ(value, other, _line_around(new, other), own):
                return False
            self._kinds[value.shape.kind] = None
        return True

    def _may_differ(self, value: _Value, other: _Value, line: tuple[str, str], speaker: Speaker) -> bool:
        if value.shape.kind == "a date or time":
            if speaker == "user" and not says_only_now(*line):
                return False
            return self._times.both_include(value.text, other.text, in_any_zone=says_now(line[0]))
        if varying := _VARYING.get(value.shape.varying):
            return varying.sub("", value.text) == varying.sub("", other.text)
        if not value.shape.names:
            return True
        is_known = {self.renamed.setdefault(value.text, other.text) == other.text}
        is_known.add([old for old, new in self.renamed.items() if new == other.text] == [value.text])
        return is_known == {True}


def _speaker_of(value: JsonObject, speaker: Speaker) -> Speaker:
    """Return the speaker of an object, which may be a message or a tool result."""
    kind, role = value.get("type"), value.get("role")  # a schema may have a list of types
    if isinstance(kind, str) and kind in _RESULT_TYPES:
        return "result"
    return _SPEAKERS.get(role, "user") if isinstance(role, str) else speaker


def _tool_names(fields: JsonObject) -> list[str]:
    tools = fields.get("tools")
    return [_tool_name(tool) for tool in tools] if isinstance(tools, list) else []


def _tool_name(tool: Any) -> str:
    own = tool.get("function", tool) if isinstance(tool, dict) else tool
    return str(own.get("name", own) if isinstance(own, dict) else own)


def _around(text: str, values: Sequence[_Value]) -> list[str]:
    """Return the parts of a text around its values."""
    ends = [0, *(value.end for value in values)]
    starts = [*(value.start for value in values), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def _blocks_of(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _BLOCK.finditer(text)]


def _is_inside(value: _Value, blocks: list[tuple[int, int]]) -> bool:
    return any(start <= value.start and value.end <= end for start, end in blocks)


def _line_around(text: str, value: _Value) -> tuple[str, str]:
    """Return the text before and after a value in its line."""
    start = text.rfind("\n", 0, value.start) + 1
    end = text.find("\n", value.end)
    return text[start : value.start], text[value.end : len(text) if end < 0 else end]
