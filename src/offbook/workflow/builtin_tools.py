"""The built-in tools of workflows, off unless a workflow declares them: http_get, read_file and shell."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeAlias

from msgspec import Struct

from offbook.errors import InputError, ToolFailureError, ToolRefusalError, ToolResolutionError
from offbook.system import os_flag
from offbook.text import did_you_mean
from offbook.tools import ToolDef, tool_of
from offbook.tools.child_process import CapturedOutput, ChildProcess
from offbook.tools.dispatch import DAEMON_THREADS
from offbook.workflow.file.template import Template, fill, text_of


def http_get(name: str, *, allow: Sequence[str], timeout_s: float) -> ToolDef:
    """Return a tool `name` that fetches pages from the hosts in `allow`, each within `timeout_s`."""
    from offbook.workflow.page_fetcher import PageFetcher  # noqa: PLC0415 - it imports httpx2, which is slow

    description = f"Fetch a page by HTTP GET. Hosts that you may ask: {', '.join(allow)}."
    pages = PageFetcher(allow, tool=name)
    return tool_of(pages.fetch, name=name, description=description, timeout_s=timeout_s, read_only=True)


Address: TypeAlias = IPv4Address | IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r":([0-9]+)$")
_TRANSLATED = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NOT_PUBLIC: tuple[IPv4Network | IPv6Network, ...] = (
    *map(IPv6Network, ("2002::/16", "2001::/32", "3fff::/20")),
    IPv4Network("192.88.99.0/24"),
)
"""Networks that wrap IPv4 addresses or lead to a relay, and one for documentation that older Pythons do not know."""


class AllowedHost(Struct, frozen=True):
    """A host name or address, or with `*.` all subdomains; at its port, or the default port of the scheme."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> AllowedHost:
        """Parse a host like `example.com`, `*.example.com`, `127.0.0.1:8080` or `[::1]`."""
        port = _PORT.search(text)
        host = text[: port.start()] if port else text
        return cls(_canonical(host.strip("[]")), int(port[1]) if port else None)

    def covers(self, host: str, port: int, *, usual_port: int) -> bool:
        if port != (self.port or usual_port):
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


class AllowedHosts:
    """Decides which hosts and addresses may be contacted.

    A name that resolves to a non-public address, except `localhost`, needs that address allowed as well.
    """

    def __init__(self, allow: Sequence[str]) -> None:
        self._allowed = [AllowedHost.parse(text) for text in allow]

    def has_host(self, host: str, port: int, *, usual_port: int) -> bool:
        canonical = _canonical(host)
        return any(allowed.covers(canonical, port, usual_port=usual_port) for allowed in self._allowed)

    def has_address(self, address: Address, port: int, *, host: str, usual_port: int) -> bool:
        """Whether the allowed `host` may be contacted at this address."""
        if is_public(address) or (host == "localhost" and address.is_loopback):
            return True
        return self.has_host(str(address), port, usual_port=usual_port)


def is_public(address: Address) -> bool:
    """Whether an address is public: not private, not loopback or link-local, not multicast."""
    if isinstance(address, IPv6Address):
        if address in _TRANSLATED:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not address.is_multicast and not any(address in each for each in _NOT_PUBLIC)


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower()


MAX_FILE_BYTES = 1_000_000
_FOLDER = os.O_RDONLY | os_flag("O_DIRECTORY") | os_flag("O_NOFOLLOW") | os_flag("O_CLOEXEC")
_FILE = os.O_RDONLY | os_flag("O_NONBLOCK") | os_flag("O_NOFOLLOW") | os_flag("O_CLOEXEC")
"""Without blocking: opening a pipe without a writer would block."""


def read_file(name: str, *, root: str, folder: Path) -> ToolDef:
    """Return a tool `name` that reads files under `root`, which is relative to `folder` and inside it.

    Raises:
        InputError: `root` is outside of `folder`, or not a folder.
    """
    source, base = f"tools.{name}", folder.resolve()
    inside = (base / root).resolve()
    if not inside.is_relative_to(base):
        raise InputError(f"{root} leaves the folder of the workflow", source=source, place="root")
    if not inside.is_dir():
        raise InputError(f"there is no folder {root} next to the workflow", source=source, place="root")
    description = "Read a text file. Paths are relative to the folder that you may read."
    return tool_of(FileReader(inside, tool=name).read, name=name, description=description, read_only=True)


class FileReader:
    """Reads UTF-8 text files of up to 1 MB under `root`, a resolved path, and nothing else."""

    def __init__(self, root: Path, *, tool: str) -> None:
        self._root, self._tool = root, tool

    async def read(self, path: str) -> str:
        """Read a text file.

        Args:
            path: the path of the file, like notes/today.txt

        Raises:
            ToolRefusalError: `path` is outside of the root, or not a regular file.
            ToolResolutionError: there is no such file.
            ToolFailureError: the file is too large, not UTF-8, or cannot be read.
        """
        parts = self._parts(path)
        try:
            data = self._data(parts, path)
        except OSError as error:
            raise self._translate(error, path) from None
        if len(data) > MAX_FILE_BYTES:
            raise ToolFailureError(f"{path} is larger than {MAX_FILE_BYTES} bytes", tool=self._tool)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ToolFailureError(f"{path} is not UTF-8 text", tool=self._tool) from None

    def _parts(self, path: str) -> tuple[str, ...]:
        """Return the parts of the resolved path below the root."""
        given = Path(path)
        if given.is_absolute() or ".." in given.parts or "\0" in path:
            raise ToolRefusalError(f"{path!r} is not a path below the folder, like notes/today.txt", tool=self._tool)
        try:
            resolved = (self._root / given).resolve()
        except (OSError, RuntimeError, UnicodeError):
            raise ToolRefusalError(f"{path!r} cannot be resolved", tool=self._tool) from None
        if not resolved.is_relative_to(self._root):
            raise ToolRefusalError(f"{path!r} is outside of the folder", tool=self._tool)
        return resolved.relative_to(self._root).parts

    def _data(self, parts: tuple[str, ...], path: str) -> bytes:
        """Read a file, at most one byte more than the limit.

        Every part is opened relative to the one before it and without following links. Nothing outside of the root is
        opened, whatever is moved or linked in the meantime.
        """
        if not parts:
            raise ToolRefusalError(f"{path!r} is a folder", tool=self._tool)
        with ExitStack() as opened:
            at = os.open(self._root, _FOLDER)
            opened.callback(os.close, at)
            for part in parts:
                try:
                    at = os.open(part, _FILE, dir_fd=at)
                except FileNotFoundError:
                    hint = did_you_mean(part, os.listdir(at), kind="there are")  # noqa: PTH208 - `at` is no path
                    raise ToolResolutionError(f"there is no {path!r}; {hint}") from None
                opened.callback(os.close, at)
            if not S_ISREG(os.fstat(at).st_mode):
                raise ToolRefusalError(f"{path!r} is not a regular file", tool=self._tool)
            data = bytearray()
            while len(data) <= MAX_FILE_BYTES and (piece := os.read(at, MAX_FILE_BYTES + 1 - len(data))):
                data += piece
            return bytes(data)

    def _translate(self, error: OSError, path: str) -> Exception:
        if error.errno == errno.ENOTDIR:
            return ToolResolutionError(f"there is no {path!r}")
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return ToolRefusalError(f"{path!r} is not a regular file", tool=self._tool)
        return ToolFailureError(f"{path!r} cannot be read: {error.strerror}", tool=self._tool)


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


def split_command(line: str) -> list[str]:
    """Split a command line into words, with quotes and backslashes as in a shell.

    Raises:
        ValueError: the line needs a shell, or a quote is not closed; the message says what to do.
    """
    words: list[list[str]] = []
    line, at, is_inside = line.strip(), 0, False
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            raise ValueError(_refusal(line[at]))
        if piece["space"] is None:
            if not is_inside:
                words.append([])
            words[-1].append(_word_text(piece))
        at, is_inside = piece.end(), piece["space"] is None
    return ["".join(pieces) for pieces in words]


def _word_text(piece: re.Match[str]) -> str:
    """Return the text of a piece of a word, without its quotes and escapes."""
    quoted = piece["double"]
    if quoted is None:
        return next(text for text in piece.groups() if text is not None)
    if expanded := _EXPANDED.match(quoted):
        raise ValueError(_refusal(expanded[1]))
    return _ESCAPED.sub(lambda escape: escape[1] or "", quoted)


def _refusal(sign: str) -> str:
    if sign in OPERATORS:
        return f"there is no shell, so {sign!r} has no effect; run one command at a time"
    if sign in "'\"\\":
        return f"the {sign} in the command line is not closed"
    return f"there is no shell, so {sign!r} is not expanded; put it in single quotes"


# A value may hold spaces, quotes and more, whoever it came from: a model, a user, a page. Filled into the line before
# that is split, it could add arguments, or end a quote. So the template is split, with a mark for each placeholder.
def fill_command(declared: object, scope: Mapping[str, Any], *, place: str = "") -> object:
    """Return a declared command as a line in which each value from the scope is one word, or within one.

    A list has one item for each word; a line is split as a shell does it.

    Raises:
        TemplateError: a template is invalid or cannot be filled in.
    """
    if isinstance(declared, list | tuple):
        return shlex.join(_filled_word(item, scope, place) for item in declared)
    if not isinstance(declared, str):
        return fill(declared, scope, place=place)
    template = Template.parse(declared)
    line = template.render(scope, place=place)
    marks = [f"{_MARK[0]}{at}{_MARK[1]}" for at in range(len(template.parts))]
    parts = list(zip(marks, template.parts, strict=True))
    try:
        words = split_command("".join(part if isinstance(part, str) else mark for mark, part in parts))
    except ValueError:
        return declared  # the tool says what is wrong with it
    texts = {mark: Template((part,)).render(scope, place=place) for mark, part in parts}
    filled = [_MARKS.sub(lambda found: texts.get(found[0], found[0]), word) for word in words]
    with suppress(ValueError):
        if split_command(line) == filled:
            return line
    return shlex.join(filled)


_MARK = ("\ue000", "\ue001")
_MARKS = re.compile(f"{_MARK[0]}[0-9]+{_MARK[1]}")


def _filled_word(item: object, scope: Mapping[str, Any], place: str) -> str:
    return Template.parse(item).render(scope, place=place) if isinstance(item, str) else text_of(item)


def runs_commands(tool: ToolDef) -> bool:
    """Return whether a tool is a `shell`."""
    return isinstance(getattr(tool.callable, "__self__", None), CommandRunner)


MAX_OUTPUT_BYTES = 64_000


def shell(name: str, *, allow: Sequence[str], folder: Path, timeout_s: float) -> ToolDef:
    """Return a tool `name` that runs the commands in `allow` in `folder`, each for at most `timeout_s`."""
    description = (
        f"Run a command, without a shell: no pipes, redirections, variables or wildcards. "
        f"Commands that you may run: {', '.join(allow)}."
    )
    commands = CommandRunner(allow, folder=folder, tool=name)
    return tool_of(commands.run, name=name, description=description, timeout_s=timeout_s, side_effect=True)


class CommandRunner:
    """Runs the commands in `allow`, found on the PATH, in `folder`.

    Commands get no input, and no environment variables but PATH, HOME and LANG. The first 64 KB of each output are
    returned. Cancelling `run` kills the command and every process that it started.
    """

    def __init__(self, allow: Sequence[str], *, folder: Path, tool: str) -> None:
        self._allow, self._folder, self._tool = tuple(allow), folder, tool

    async def run(self, command: str) -> str:
        """Run the command and return its output, with the exit code if that is not 0.

        Args:
            command: the command with its arguments, quoted as in a shell, like wc -l 'my notes.txt'

        Raises:
            ToolRefusalError: the command is not allowed, or needs a shell.
            ToolFailureError: the command cannot be started.
        """
        process = self._start(self._split(command))
        try:
            loop = asyncio.get_running_loop()
            exit_code = await loop.run_in_executor(DAEMON_THREADS, process.wait)
            parts = [f"[exit code {exit_code}]" if exit_code else "", _show_output(process.stdout)]
            if process.stderr.data:
                parts.append(f"[stderr]\n{_show_output(process.stderr)}")
            return "\n".join(part.rstrip("\n") for part in parts if part)
        finally:
            process.kill()

    def _split(self, command: str) -> list[str]:
        try:
            words = split_command(command)
        except ValueError as error:
            raise ToolRefusalError(str(error), tool=self._tool) from None
        if not words or words[0] not in self._allow:
            name = repr(words[0]) if words else "an empty command"
            raise ToolRefusalError(f"{name} is not allowed; allowed: {', '.join(self._allow)}", tool=self._tool)
        return words

    def _start(self, words: list[str]) -> ChildProcess:
        variables = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        path = os.environ.get("PATH", os.defpath).split(os.pathsep)
        environment = variables | {"PATH": os.pathsep.join(folder for folder in path if Path(folder).is_absolute())}
        program = shutil.which(words[0], path=environment["PATH"])
        if program is None:
            raise ToolFailureError(f"{words[0]} is not installed", tool=self._tool)
        try:
            return ChildProcess(
                [program, *words[1:]], environment=environment, limit_bytes=MAX_OUTPUT_BYTES, folder=self._folder
            )
        except (OSError, ValueError) as error:
            raise ToolFailureError(f"{words[0]} cannot be run: {error}", tool=self._tool) from None


def _show_output(output: CapturedOutput) -> str:
    return f"{output.text}\n[{output.dropped_bytes} more bytes]" if output.dropped_bytes else output.text
