"""Images, audio and other long base64 of a JSON recording, kept once each in files of a folder next to it.

In the JSON, a reference replaces the base64: `data:image/png;base64,offbook-file:<sha256>.png`. Readers get the base64
to the byte; base64 that cannot be restored exactly stays in place.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Raw

from offbook.decoding import decode
from offbook.errors import InputError, RecordingFormatError
from offbook.files import read_regular, write_next
from offbook.recording.format.file import MAX_FILE_BYTES, too_large
from offbook.recording.format.keys import FOLDER_KEY
from offbook.recording.stores.store import refuse_link

OUT_OF_LINE_CHARS = 16_384
"""The minimum size of base64 in a file: 12 KiB."""
_MARK = b"offbook-file:"
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{%d,}+={0,2}" % OUT_OF_LINE_CHARS)
_SOME_BASE64 = re.compile(rb"[A-Za-z0-9+/]{32}")
_STEP = OUT_OF_LINE_CHARS // 2
_SIGNATURES = (
    (0, b"\x89PNG\r\n", "png"),
    (0, b"\xff\xd8\xff", "jpg"),
    (0, b"GIF8", "gif"),
    (8, b"WEBP", "webp"),
    (8, b"WAVE", "wav"),
    (0, b"%PDF", "pdf"),
    (0, b"ID3", "mp3"),
    (0, b"\xff\xfb", "mp3"),
    (0, b"OggS", "ogg"),
    (0, b"fLaC", "flac"),
    (4, b"ftyp", "mp4"),
    (0, b"\x1a\x45\xdf\xa3", "webm"),
)
_UNKNOWN = "bin"
# text may follow a reference at once, so that only what is known can be its extension
_NAME = rf"[0-9a-f]{{64}}\.(?:{'|'.join([*dict.fromkeys(name for _, _, name in _SIGNATURES), _UNKNOWN])})"
_REFERENCE = re.compile(_MARK + f"({_NAME})".encode())
_FILE_NAME = re.compile(rf"{_NAME}(\.next)?")


class MediaFolder:
    """The folder next to the recording at `path`: `run.json.files`."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".files")

    def take_out(self, data: bytes) -> tuple[bytes, dict[str, bytes]]:
        """Return the JSON of a recording with references instead of long base64, and the files by name.

        A recording whose texts already contain such a reference does not change.
        """
        if len(data) < OUT_OF_LINE_CHARS or _MARK in data:
            return data, {}
        files, parts, done = dict[str, bytes](), list[bytes](), 0
        for start, end in _long_runs(data):
            content = _decoded(data[start:end])
            if content is not None:
                kinds = (kind for at, sign, kind in _SIGNATURES if content[at : at + len(sign)] == sign)
                name = f"{sha256(content).hexdigest()}.{next(kinds, _UNKNOWN)}"
                files[name] = content
                parts += [data[done:start], _MARK, name.encode()]
                done = end
        if not files:
            return data, {}
        key = msgspec.json.encode({FOLDER_KEY: self.path.name})[1:-1].replace(b":", b": ", 1)
        referring = b"".join([*parts, data[done:]])
        return referring.replace(b"{\n", b"{\n  " + key + b",\n", 1), files

    def put_back(self, data: bytes, *, source: str) -> bytes:
        """Return the JSON of a recording with the base64 of its files.

        Raises:
            FileNotFoundError: a file is missing.
            InputError: a file's content differs from its name, or the folder is not next to the recording.
        """
        folder = self._named_folder(data, source)
        if folder is None:
            return data
        encoded: dict[bytes, bytes] = {}
        for found in set(_REFERENCE.findall(data)):
            encoded[found] = b64encode(_read(folder / found.decode(), source))
        size = len(data) + sum(len(encoded[found[1]]) for found in _REFERENCE.finditer(data))
        if size > MAX_FILE_BYTES:
            raise too_large(size, source)
        return _REFERENCE.sub(lambda found: encoded[found[1]], data)

    def _named_folder(self, data: bytes, source: str) -> Path | None:
        """Return the folder that a recording names, or None."""
        if b'"%s"' % FOLDER_KEY.encode() not in data:
            return None
        try:
            value = decode(data, dict[str, Raw]).get(FOLDER_KEY)
            name = None if value is None else decode(value, str)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # who parses the recording says what is wrong
        if name is not None and (not name.endswith(".files") or "/" in name or "\\" in name or "\0" in name):
            hint = f"write {self.path.name!r}, and move the folder there"
            raise RecordingFormatError(
                f"{name!r} is not a folder of files", source=source, place=f"key {FOLDER_KEY!r}", hint=hint
            )
        return None if name is None else self.path.with_name(name)

    def write(self, files: dict[str, bytes], *, mode: int | None) -> None:
        """Write the missing files. Raises OSError."""
        if not files:
            return
        refuse_link(self.path, source=str(self.path))
        self.path.mkdir(exist_ok=True)
        for name, content in files.items():
            target = self.path / name
            if not target.exists() or target.stat().st_size != len(content):
                write_next(target, content, mode=mode, durable=True).replace(target)

    def keep(self, names: Iterable[str]) -> None:
        """Remove the files written here that are not among `names`, and the folder if it is empty. Raises OSError."""
        if self.path.is_symlink() or not self.path.is_dir():
            return
        kept = set(names)
        left = [path for path in self.path.iterdir() if path.name in kept or not _FILE_NAME.fullmatch(path.name)]
        for path in set(self.path.iterdir()) - set(left):
            path.unlink(missing_ok=True)
        if not left:
            self.path.rmdir()


def _long_runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of base64 of at least OUT_OF_LINE_CHARS characters.

    Sampling at intervals is enough, because such a run cannot lie between two samples. Most recordings need nothing
    else.
    """
    at = done = 0
    while at < len(data):
        if _SOME_BASE64.match(data, at):
            before = data[max(done, at - _STEP) : at]
            start = at - len(before) + len(before.rstrip(_ALPHABET))
            found = _BASE64.match(data, start)
            if found:
                yield found.span()
                at = done = found.end()
                continue
        at += _STEP


def _decoded(text: bytes) -> bytes | None:
    """Return the bytes of base64, or None if they do not give the same text again."""
    if len(text) % 4:
        return None
    content = b64decode(text)
    return content if b64encode(content) == text else None


def _read(path: Path, source: str) -> bytes:
    content = read_regular(path)
    if sha256(content).hexdigest() != path.stem:
        hint = "restore it from version control, or record again"
        raise InputError("the file has other content than its name says", source=source, place=str(path), hint=hint)
    return content


def missing_error(error: FileNotFoundError, *, source: str) -> InputError:
    """Return the error for a missing file of a recording."""
    name = Path(str(error.filename)).name
    folder = Path(str(error.filename)).parent.name
    hint = f"copy the folder {folder} with the recording, or record again"
    return InputError(f"its file {name} is missing", source=source, place=folder, hint=hint)
