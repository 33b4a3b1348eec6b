"""The folders that texts of a run name: a recording has those of its own run, and a replay those of today.

A request is looked up as it would have been in the run that was recorded (`FolderMap`), and its answer names the
folders of today (`Renames`): otherwise, the program would write where the recorded one has written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, cast
from urllib.parse import quote

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.framing import escape_line_breaks, is_framed, splitter_for
from offbook.decoding import convert
from offbook.errors import RecordingFormatError, RecordingMismatchError
from offbook.messages import JsonObject
from offbook.recording.format.document import AnyExchange, E
from offbook.recording.format.exchange import (
    Exchange,
    StreamPiece,
    TimedPiece,
    ToolExchange,
    chunks_by_text,
    piece_text,
)
from offbook.recording.format.wire_record import (
    WEBSOCKET,
    WireRecord,
    frame_texts,
    joined_texts,
    searchable_bytes,
    spelled_texts,
    wire_text,
    with_frame_texts,
)
from offbook.schema_errors import explain_msgspec_error, shape_hint
from offbook.text import replace_spans

FOLDERS = "folders"
"""The key of the metadata of a recording that names the folders of its runs."""

TEMPORARY = "/tmp"  # noqa: S108 - only its name


class RunFolders(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The names of the folders of a run, or of the runs of a recording: where it works, its home, and that of its
    temporary files. Each may be spelled in several ways."""

    work: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str], *, work: str | os.PathLike[str]) -> RunFolders:
        """Return the folders of a program that is started with this environment, and works in `work`."""
        home, temporary = environment.get("HOME", ""), environment.get("TMPDIR") or TEMPORARY
        return cls(_spellings(os.fspath(work)), _spellings(home), _spellings(temporary))

    @classmethod
    def from_meta(cls, meta: JsonObject, *, source: str) -> RunFolders:
        """Return the folders that the metadata of a recording names.

        Raises:
            RecordingFormatError: they are not declared as they should be.
        """
        declared = meta.get(FOLDERS)
        try:
            return convert(declared, cls) if declared else NOWHERE
        except msgspec.ValidationError as error:
            reason, path = explain_msgspec_error(error)
            hint = shape_hint(reason, path, cls)
            raise RecordingFormatError(reason, source=source, place=f"_meta.{FOLDERS}{path}", hint=hint) from None

    def __or__(self, other: RunFolders) -> RunFolders:
        """Return these folders, and those of `other` after them."""
        return RunFolders(*(tuple(dict.fromkeys((*ours, *theirs))) for ours, theirs in zip(self, other, strict=True)))

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter((self.work, self.home, self.temporary))

    def or_else(self, other: RunFolders) -> RunFolders:
        """Return these folders, and those of `other` where there are none."""
        return RunFolders(*(ours or theirs for ours, theirs in zip(self, other, strict=True)))

    def named_in(self, text: str) -> RunFolders:
        """Return those of the folders that a text names."""
        known = {name for names in self for name in names}
        named = {found.name for found in _found(text, known)}
        return RunFolders(*(tuple(name for name in names if name in named) for names in self))


NOWHERE: RunFolders = RunFolders()


def _spellings(folder: str) -> tuple[str, ...]:
    """Return a folder as it is named, and without links; nothing if it could stand for anything."""
    plain = folder.rstrip("/")
    names = (plain, os.path.realpath(plain)) if plain.startswith("/") else ()
    return tuple(dict.fromkeys(name for name in names if name != "/"))


class Renames(Struct, frozen=True, dict=True):
    """New folder names for a recorded answer to one call: `names` maps recorded names to new ones.

    A new name is empty if it is unknown because the call uses several."""

    names: dict[str, str] = {}

    def plus(self, others: Mapping[str, str]) -> Renames:
        """Return these names, and others that come before them."""
        return Renames({**self.names, **others}) if others else self

    def text(self, text: str) -> str:
        """Return a text with the new names.

        Raises:
            RecordingMismatchError: it has a folder whose new name is not known.
        """
        return self._texts([text])[0]

    def exchange(self, exchange: E) -> E:
        """Return the exchange with the new names in its answer, or the same object if it names none of the folders.

        Raises like `text`.
        """
        if not self._changing or not isinstance(exchange, Exchange | ToolExchange) or not self._concerns(exchange):
            return exchange
        if isinstance(exchange, ToolExchange):
            return cast("E", self._tool_exchange(exchange))
        renamed = replace(
            exchange,
            content=self.text(exchange.content),
            reasoning=exchange.reasoning and self.text(exchange.reasoning),
            tool_calls=exchange.tool_calls
            and [replace(call, arguments=self.value(call.arguments)) for call in exchange.tool_calls],
            chunks=exchange.chunks and self._chunks(exchange.chunks),
            wire=exchange.wire and self._wire(exchange.wire),
        )
        return cast("E", exchange if renamed == exchange else renamed)

    def _tool_exchange(self, exchange: ToolExchange) -> ToolExchange:
        error = exchange.error
        return replace(
            exchange,
            result=self.value(exchange.result),
            error=error and replace(error, message=self.text(error.message)),
            wire=exchange.wire and self._wire(exchange.wire),
        )

    def value(self, value: Any) -> Any:
        """Return a JSON value with the new names."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return value if value.keys() == {"base64"} else {self.text(str(k)): self.value(v) for k, v in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    @cached_property
    def _changing(self) -> dict[str, str]:
        return {old: new for old, new in self.names.items() if old != new}

    def _concerns(self, exchange: Exchange | ToolExchange) -> bool:
        """Return whether an answer names one of the folders that are called otherwise, perhaps in pieces."""
        if isinstance(exchange, ToolExchange):
            texts = [msgspec.json.encode([exchange.result, exchange.error]).decode()]
        else:
            chunks = exchange.chunks or ()
            pieces = ["".join(piece_text(chunks[place][1]) for place in places) for places in chunks_by_text([*chunks])]
            texts = [exchange.content, exchange.reasoning or "", msgspec.json.encode(exchange.tool_calls).decode()]
            texts += pieces
        if exchange.wire is not None:
            texts.append(searchable_bytes(exchange.wire).decode("utf-8", "replace"))
        return any(self._names(text) for text in texts)

    def _names(self, text: str) -> bool:
        return any(found.name in self._changing for found in _found(text, self.names))

    def _texts(self, texts: list[str]) -> list[str]:
        """Return texts that are one text together with the new names, each where the old one began."""
        spans = []
        for found in _found("".join(texts), self.names):
            new = self.names[found.name]
            if not new:
                raise _unknown_folder(found.name)
            if new != found.name:
                spans.append(found.replaced(new))
        return replace_spans(texts, spans) if spans else texts

    def _chunks(self, chunks: list[TimedPiece]) -> list[TimedPiece]:
        renamed = list(chunks)
        for places in chunks_by_text(chunks):
            texts = self._texts([piece_text(chunks[place][1]) for place in places])
            for place, text in zip(places, texts, strict=True):
                at_ms, piece = chunks[place]
                renamed[place] = (at_ms, _piece_with(piece, text))
        return renamed

    def _wire(self, record: WireRecord) -> WireRecord | None:
        """Return the record with the new names, in each of its texts, and in those that several events spell together.

        None if a name cannot be replaced in the bytes: the answer is then encoded from the decoded fields.
        """
        headers = {name: self.text(value) for name, value in record.headers.items()}
        record = replace(_in_events(record), headers=headers)
        texts = frame_texts(record)
        parts = [_Document.of(text) for text in texts]
        documents = [part.value for part in parts]
        if record.frames is None:
            documents = self.value(documents)
        for places in spelled_texts(documents):
            pieces = [container[name] for container, name in places]
            if (renamed := self._texts(pieces)) != pieces:
                for (container, name), text in zip(places, renamed, strict=True):
                    container[name] = text
        new = [part.text_with(value) for part, value in zip(parts, documents, strict=True)]
        renamed_record = record if new == texts else with_frame_texts(record, new)
        is_left = any(self._names(text) for text in joined_texts(renamed_record.content()))
        return None if is_left else renamed_record


NO_RENAMES: Renames = Renames()


def _unknown_folder(folder: str) -> RecordingMismatchError:
    return RecordingMismatchError(
        f"the recorded answer names the folder {folder}, and this run has several folders in its place, or none: "
        "record it again here, or run it in the folders of the recording",
        kind="drifted",
    )


def _piece_with(piece: str | StreamPiece, text: str) -> str | StreamPiece:
    if isinstance(piece, str):
        return text
    call = piece.tool_call
    return StreamPiece(reasoning=text) if call is None else StreamPiece(tool_call=replace(call, arguments=text))


def _in_events(record: WireRecord) -> WireRecord:
    """Return a record of a stream with one event a frame, due when the last of its bytes is."""
    content_type = record.headers.get("content-type", "")
    if record.frames is None or record.protocol == WEBSOCKET or not is_framed(content_type):
        return record
    splitter = splitter_for(content_type)
    events = [(at_ms, event) for at_ms, data in record.timed_frames() for event in splitter.feed(data)]
    end_ms = record.frames[-1][0] if record.frames else 0.0
    events += [(end_ms, event) for event in splitter.close()]
    return replace(record, frames=[(at_ms, wire_text(event)) for at_ms, event in events])


class _Document(Struct, frozen=True):
    """A text that has JSON in it, as an event has, or that is its own value."""

    value: Any
    before: str = ""
    after: str = ""
    text: str = ""

    @classmethod
    def of(cls, text: str) -> _Document:
        whole = len(text) - len(text.lstrip()), len(text.rstrip()) - 1
        for first, last in (whole, (text.find("{"), text.rfind("}"))):
            if 0 <= first < last and text[first] in "{[":
                try:
                    value = orjson.loads(text[first : last + 1])
                except orjson.JSONDecodeError:
                    continue
                if isinstance(value, dict | list):
                    return cls(value, text[:first], text[last + 1 :], text)
        return cls(text, text=text)

    def text_with(self, value: Any) -> str:
        """Return the text with another value; the same text if it has that value."""
        if isinstance(value, str):
            return value
        data = orjson.dumps(value)
        is_same = data == orjson.dumps(_Document.of(self.text).value)
        return self.text if is_same else f"{self.before}{escape_line_breaks(data).decode()}{self.after}"


class FolderMap(Struct, frozen=True, dict=True):
    """Maps the folders of a run (`today`) to those of its recording (`recorded`), and back."""

    recorded: RunFolders = NOWHERE
    today: RunFolders = NOWHERE

    @cached_property
    def _forth(self) -> dict[str, str]:
        """The recorded names by those of today. The folder that a run works in comes before its home."""
        pairs = [*zip(self.recorded, self.today, strict=True)][::-1]
        return {
            name: name if name in recorded else recorded[0] for recorded, today in pairs if recorded for name in today
        }

    @cached_property
    def _back(self) -> dict[str, tuple[str, ...]]:
        """The names of today that a recorded one may stand for."""
        names: dict[str, tuple[str, ...]] = {}
        for recorded, today in zip(self.recorded, self.today, strict=True):
            for name in [each for each in recorded if today and each.startswith("/")]:
                new = name if name in today else today[0]
                names[name] = tuple(dict.fromkeys((*names.get(name, ()), new)))
        return names

    @cached_property
    def is_needed(self) -> bool:
        """Whether a folder has another name."""
        return any(old != new for old, new in self._forth.items()) or any(
            (old,) != names for old, names in self._back.items()
        )

    def as_recorded(self, text: str) -> tuple[str, frozenset[str]]:
        """Return what a request would have said in the recorded run, and which of the folders it names."""
        found = list(_found(text, {**self._forth, **dict.fromkeys(self._back)}))
        new = [(each, self._forth.get(each.name, each.name)) for each in found]
        spans = [each.replaced(name) for each, name in new if name != each.name]
        named = frozenset(each.name for each in found)
        return (replace_spans([text], spans)[0] if spans else text), named

    def renames(self, named: frozenset[str] = frozenset()) -> Renames:
        """Return the folder names for the answer to a request that names these folders.

        A recorded name that also occurs in the request stays unchanged. One that may stand for several
        folders stands for the one that the request names.
        """
        return Renames({old: self._new_name(old, new, named) for old, new in self._back.items()})

    @cached_property
    def to_record(self) -> Renames:
        """The names of a run's folders in its recording."""
        return Renames(self._forth) if self.is_needed else NO_RENAMES

    @staticmethod
    def _new_name(old: str, new: tuple[str, ...], named: frozenset[str]) -> str:
        possible = [name for name in dict.fromkeys((*new, old)) if name in named] or list(new)
        return possible[0] if len(possible) == 1 else ""


SAME_FOLDERS: FolderMap = FolderMap()


class FolderNotes:
    """Renames folders in new recordings as `folders` says, and collects the names that occur.

    The recorders of a run share it.
    """

    def __init__(self, folders: FolderMap) -> None:
        self._folders, self.named = folders, NOWHERE

    def rename(self, exchange: E) -> E:
        """Return an exchange as it is recorded."""
        names = self._folders.to_record
        if isinstance(exchange, ToolExchange) and isinstance(exchange.arguments, dict):
            exchange = cast("E", replace(exchange, arguments=names.value(exchange.arguments)))
        return names.exchange(exchange)

    def note(self, exchange: AnyExchange, meta: JsonObject) -> JsonObject | None:
        """Return the metadata of a recording with the folders that an exchange names; None if it has them."""
        named = self._folders.recorded.named_in(msgspec.json.encode(exchange).decode())
        if self.named | named == self.named:
            return None
        self.named |= named
        known = RunFolders.from_meta(meta, source="")
        return {FOLDERS: msgspec.to_builtins(known | self.named)} if known | self.named != known else None


# A name must not be found in a longer one: /home/al neither in /home/alice nor in /mnt/home/al. What a file is called
# may go on with nearly any character, so a sentence that ends with a path is told by what follows its full stop. Texts
# may be JSON in JSON, where slashes have backslashes and a new line ends with an n, parts of URLs, and the values of
# short options like -I/home/al.
_BEFORE = r"""(?:(?<![\w./\\~%-])|(?<=\\[nrt])|(?<=file://)|(?<=[\s"'=]-[A-Za-z]))"""
_AFTER = r"(?![\w~+@-]|\.\w|%(?!2[Ff])[0-9A-Fa-f]{2})"


class _Form(Struct, frozen=True):
    """A way to write a folder: the pattern that finds it, and what writes another name in this way, which gets the
    backslashes before each slash."""

    name: str
    pattern: str
    encode: Callable[[str, str], str]


class _Forms(Struct, frozen=True):
    """The ways to write some folders, in the order of the groups of `pattern`. Only where `start` matches, it may."""

    start: re.Pattern[str]
    pattern: re.Pattern[str]
    forms: list[_Form]


@lru_cache(maxsize=64)  # each case of an exploration has folders of its own
def _forms_of(names: frozenset[str]) -> _Forms:
    forms: list[_Form] = []
    for name in names:
        parts = name.split("/")[1:]
        in_url = "".join(f"%2[Ff]{re.escape(quote(part))}" for part in parts)
        forms.append(_Form(name, "/" + "(?P=slash)/".join(map(re.escape, parts)), _with_slashes))
        forms.append(_Form(name, in_url, lambda new, _: quote(new, safe="")))
        if quote(name) != name:
            forms.append(_Form(name, re.escape(quote(name)), lambda new, _: quote(new)))
        if (escaped := _in_ascii(name)) != name:
            forms.append(_Form(name, re.escape(escaped), lambda new, _: _in_ascii(new)))
    forms.sort(key=lambda form: (-len(form.name), form.name))
    alternatives = "|".join(f"({form.pattern})" for form in forms)
    first = {name.split("/")[1] for name in names}
    starts = "|".join(re.escape(form) for part in first for form in {part, quote(part), _in_ascii(part)})
    pattern = re.compile(f"{_BEFORE}(?P<slash>\\\\*)(?:{alternatives}){_AFTER}")
    return _Forms(re.compile(f"(?:/|%2[Ff])(?:{starts})"), pattern, forms)


def _with_slashes(name: str, backslashes: str) -> str:
    return name.replace("/", f"{backslashes}/")


def _in_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


class _Found(Struct, frozen=True):
    """A folder in a text, from `start` to `end`, with what writes another name in the same way."""

    name: str
    start: int
    end: int
    form: _Form
    backslashes: str

    def replaced(self, new: str) -> tuple[int, int, str]:
        return self.start, self.end, self.form.encode(new, self.backslashes)


def _found(text: str, names: Iterable[str]) -> Iterator[_Found]:
    """Yield which of the names a text has, in order."""
    known = frozenset(names)
    if not known:
        return
    forms, done = _forms_of(known), 0
    for at in forms.start.finditer(text):
        start = at.start()
        while start > done and text[start - 1] == "\\":
            start -= 1
        match = forms.pattern.match(text, start) if start >= done else None
        if match is not None:
            form = forms.forms[(match.lastindex or 2) - 2]
            yield _Found(form.name, start, match.end(), form, match["slash"])
            done = match.end()


_HOME_NAME = rb"""[^/\\\s"'`:;,<>()\[\]{}|&*?]+"""
_HOMES = (
    rb"/(?:home|Users)/" + _HOME_NAME,
    rb"/root(?![\w.-])",
    rb"[A-Za-z]:\\+Users\\+" + _HOME_NAME,  # in JSON, and in JSON inside of that
)
_HOME = b"<home>"


@cache
def _home_pattern(own_home: bytes) -> re.Pattern[bytes]:
    homes = [re.escape(own_home) + rb"(?![\w.-])"] if len(own_home) > 1 else []
    return re.compile(rb"(?:(?<![\w./\\-])|(?<=\\[nrt]))(?:" + b"|".join([*homes, *_HOMES]) + rb")")


def _own_home_pattern() -> re.Pattern[bytes]:
    return _home_pattern(os.environ.get("HOME", "").rstrip("/").encode("utf-8", "surrogateescape"))


def without_home_names(data: bytes) -> bytes:
    """Return JSON in which every home folder is called the same: those of systems, and the one of this process."""
    return _own_home_pattern().sub(_HOME, data)


def other_homes(recorded: bytes, today: bytes) -> dict[str, str]:
    """Map the home folders of a recorded request to those of an otherwise equal new one. An unknown name is empty."""
    old, new = (
        [name.decode("utf-8", "replace") for name in _own_home_pattern().findall(data) if name.startswith(b"/")]
        for data in (recorded, today)
    )
    if old == new:
        return {name: name for name in old}
    if len(old) != len(new):
        return {name: name if name in new else "" for name in old}
    pairs: dict[str, set[str]] = {}
    for before, after in zip(old, new, strict=True):
        pairs.setdefault(before, set()).add(after)
    return {before: min(after) if len(after) == 1 else "" for before, after in pairs.items()}
