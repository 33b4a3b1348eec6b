"""The `mcpServers` of clients: reads an agent's config, and writes one of the same shape that leads to offbook."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.files import read_file, replace_file
from offbook.mcp.connect import JOIN_VARIABLE
from offbook.mcp.http.upstream import checked_url
from offbook.messages import JsonObject
from offbook.recording.format.keys import unfit_tool_reason
from offbook.schema_errors import decode_json
from offbook.text import closest_name, did_you_mean_file

CONFIG_VARIABLE = "OFFBOOK_MCP_CONFIG"
"""The environment variable with the path of the config that leads to offbook."""

PLACEHOLDER = "{mcp}"
"""The placeholder in a command for the path of that config."""

UNREACHED_HINT = f"give the program {PLACEHOLDER} in place of its own config, or let it read ${CONFIG_VARIABLE}"
"""The hint for a program that reaches its real servers instead of us."""

_SECTIONS = ("mcpServers", "servers")
_EXAMPLE = '{"mcpServers": {"github": {"command": "npx", "args": ["-y", "some-mcp-server"]}}}'
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_STDIO_KEYS = ("command", "args", "env")
_HTTP_KEYS = ("url", "headers", "type")
_CLOSE = 0.75
"""The minimum similarity of a misspelt key to a known one. Keys of other clients are less similar."""
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http", "sse")


class ServerConfig(Struct, frozen=True):
    """One server of a config: a command over stdio, or a URL. `fields` is the entry as it was written."""

    name: str
    kind: Literal["stdio", "http"]
    fields: JsonObject

    def url(self, environment: Mapping[str, str]) -> str:
        """Return the URL of a server over HTTP, with `${NAME}` and `${NAME:-default}` as variables, as in clients.

        Raises:
            InputError: it is not a URL.
        """
        url = _expanded(str(self.fields["url"]), environment)
        return checked_url(url, source=f"mcpServers.{self.name}.url")

    def headers(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the headers for a server over HTTP, with their variables expanded."""
        return {name: _expanded(value, environment) for name, value in self.fields.get("headers", {}).items()}

    @property
    def command(self) -> list[str]:
        """The command of a server over stdio, with its arguments."""
        return [str(self.fields["command"]), *self.fields.get("args", [])]


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[2] or ""), text)


class McpConfig(Struct, frozen=True):
    """A config of MCP servers. `document` is all of it, and `section` the name of the object with the servers."""

    document: JsonObject
    section: str
    servers: tuple[ServerConfig, ...]

    @classmethod
    def of(cls, servers: Iterable[ServerConfig]) -> McpConfig:
        """Return a config with these servers."""
        kept = tuple(servers)
        return cls({"mcpServers": {server.name: server.fields for server in kept}}, "mcpServers", kept)

    def leading_to(self, *, join: Mapping[str, str], urls: Mapping[str, str], is_live: bool) -> JsonObject:
        """Return the config with each server replaced: by a command that joins the session at `join`, or by a URL, both
        with the server's name.

        The real server's needs, such as variables and headers, are kept if it `is_live`, else dropped.
        """
        servers = {}
        for server in self.servers:
            if server.kind == "stdio":
                servers[server.name] = _joining(server, join[server.name], is_live=is_live)
            else:
                kept = {name: value for name, value in server.fields.items() if is_live or name != "headers"}
                servers[server.name] = kept | {"url": urls[server.name]}
        return self.document | {self.section: servers}


def _joining(server: ServerConfig, address: str, *, is_live: bool) -> JsonObject:
    kept = {name: value for name, value in server.fields.items() if name not in ("command", "args", "env", "envFile")}
    variables = server.fields.get("env", {}) if is_live else {}
    arguments = ["-P", "-m", "offbook.mcp.connect", *(server.command if is_live else [])]
    return kept | {"command": sys.executable, "args": arguments, "env": variables | {JOIN_VARIABLE: address}}


def load_config(path: str | os.PathLike[str]) -> McpConfig:
    """Read a config.

    Raises:
        InputError: it is invalid; with the file, the place and the reason.
    """
    source = os.fspath(path)
    try:
        data = read_file(path)
    except OSError as error:
        hint = did_you_mean_file(path, "name the agent's .mcp.json")
        raise InputError(error.strerror or str(error), source=source, hint=hint) from None
    hint = f"a config is like {_EXAMPLE}"
    return parse_config(decode_json(data, object, source=source, hint=hint, allows_repeats=True), source=source)


def parse_config(document: Any, *, source: str) -> McpConfig:
    """Parse the text of an MCP config. Raises like `load_config`."""
    section = next((name for name in _SECTIONS if isinstance(document, dict) and name in document), None)
    if section is None:
        near = _misspelt(document, _SECTIONS) if isinstance(document, dict) else {}
        hint = " ".join([*(f"did you mean {meant!r}?" for meant in near.values()), f"a config is like {_EXAMPLE}"])
        raise InputError("no mcpServers", source=source, place=next(iter(near), ""), hint=hint)
    entries = document[section]
    if not isinstance(entries, dict) or not entries:
        reason = "expected an object with a server or more"
        raise InputError(reason, source=source, place=section, hint=f"a config is like {_EXAMPLE}")
    servers = tuple(_server(name, entry, source, f"{section}.{name}") for name, entry in entries.items())
    return McpConfig(document, section, servers)


def _server(name: str, entry: Any, source: str, place: str) -> ServerConfig:
    if reason := unfit_tool_reason(name):
        raise InputError(f"the name {reason}", source=source, place=place)
    if not isinstance(entry, dict):
        raise InputError("expected an object", source=source, place=place, hint=f"a config is like {_EXAMPLE}")
    keys = _STDIO_KEYS if "command" in entry else _HTTP_KEYS if "url" in entry else _STDIO_KEYS + _HTTP_KEYS
    for key, meant in _misspelt(entry, keys).items():
        raise InputError("unknown key", source=source, place=f"{place}.{key}", hint=f"did you mean {meant!r}?")
    if "command" in entry:
        return _stdio_server(name, entry, source, place)
    if "url" in entry:
        return _http_server(name, entry, source, place)
    hint = "a server has a command, or a url"
    raise InputError("neither a command nor a url", source=source, place=place, hint=hint)


def _misspelt(entry: JsonObject, keys: Sequence[str]) -> dict[str, str]:
    """Map keys of an object that look misspelt to the missing one of `keys` that they resemble."""
    missing = [key for key in keys if key not in entry]
    others = [key for key in entry if key not in keys]
    return {key: meant for key in others if (meant := closest_name(key.lower(), missing, cutoff=_CLOSE))}


def _stdio_server(name: str, entry: JsonObject, source: str, place: str) -> ServerConfig:
    arguments, variables = entry.get("args", []), entry.get("env", {})
    if not isinstance(entry["command"], str) or not entry["command"]:
        raise InputError("expected a str", source=source, place=f"{place}.command", hint=f"like {_EXAMPLE}")
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise InputError("expected a list of str", source=source, place=f"{place}.args", hint=f"like {_EXAMPLE}")
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise InputError("expected an object of str", source=source, place=f"{place}.env")
    return ServerConfig(name, "stdio", entry)


def _http_server(name: str, entry: JsonObject, source: str, place: str) -> ServerConfig:
    kind = entry.get("type", entry.get("transport", "http"))
    if kind not in _HTTP_TYPES:
        hint = "use http, or sse for the transport of 2024"
        raise InputError(f"the type {kind!r} is not supported", source=source, place=f"{place}.type", hint=hint)
    if not isinstance(entry["url"], str):
        raise InputError("expected a str", source=source, place=f"{place}.url")
    headers = entry.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise InputError("expected an object of str", source=source, place=f"{place}.headers")
    return ServerConfig(name, "http", entry)


def write_config(document: JsonObject, path: Path) -> None:
    """Write a config that only its owner can read, because it holds the user's keys and a session's token."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n", mode=0o600)
