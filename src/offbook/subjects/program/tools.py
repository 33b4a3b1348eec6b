"""The MCP tools of an explored program: their names and side effects, and the observed calls."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import UNSET, Struct

from offbook.errors import InputError
from offbook.explore.observer import MAX_RESULT_CHARS, RunObserver
from offbook.explore.run import ToolRun
from offbook.explore.settings import ExploreSettings
from offbook.mcp.answer import McpAnswer, McpSource
from offbook.mcp.config import CONFIG_VARIABLE, PLACEHOLDER, UNREACHED_HINT, McpConfig, load_config
from offbook.mcp.hub import McpHub
from offbook.mcp.replay import McpArguments, McpReplay, annotations_of, call_outcome
from offbook.mcp.session import McpToolCall
from offbook.messages import JsonObject, result_text
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import ExchangeIndex
from offbook.session.script import Script
from offbook.text import shorten
from offbook.tools.effects import Effect, EffectOutcome, ToolDeclaration
from offbook.tools.failures import is_failed_result
from offbook.wire.session import WireSession
from offbook.wire.tools import SessionTools

UNLISTED = ToolDeclaration(side_effect=True)
"""The declaration of an undeclared tool, which the specification takes to change something."""

_APART = re.compile(r"[^a-z0-9]+")


class McpTools(Struct, frozen=True, dict=True):
    """The tools of the servers in a config, as `server.tool`, with their own declarations."""

    config: McpConfig
    annotations: Mapping[str, JsonObject]

    @property
    def names(self) -> list[str]:
        """Their names, with and without those of the servers."""
        return [name for tool in self.annotations for name in (tool, tool.partition(".")[2])]

    def find(self, name: str) -> list[str]:
        """Return the tools that a name means: `server.tool`, the tool alone, or an agent's combination, such as
        `mcp__server__tool`. A tool of the program itself gives none.
        """
        return [name] if name in self.annotations else self._by_spelling.get(_plain(name), [])

    def declarations(self, declared: Mapping[str, ToolDeclaration]) -> dict[str, ToolDeclaration]:
        """Return the declarations of all tools. Those `declared` by hand overrule annotations.

        An undeclared tool has a side effect, as the specification has it.
        """
        own = {tool: _declaration(annotations) for tool, annotations in self.annotations.items()}
        return own | {tool: each for name, each in declared.items() for tool in self.find(name) or [name]}

    @cached_property
    def _by_spelling(self) -> dict[str, list[str]]:
        spellings: defaultdict[str, list[str]] = defaultdict(list)
        for full_name in self.annotations:
            server, _, tool = full_name.partition(".")
            for spelling in {_plain(tool), _plain(f"{server} {tool}"), _plain(f"mcp {server} {tool}")}:
                spellings[spelling].append(full_name)
        return dict(spellings)


def load_mcp_tools(config: str, recording: str | os.PathLike[str]) -> McpTools:
    """Return the tools of a config, as a recording, or the recordings in a folder, have them: listed or called.

    Raises:
        InputError: the config or a recording cannot be read.
    """
    loaded, text = load_config(config), os.fspath(recording)
    is_folder = "://" not in text and Path(text).is_dir()
    annotations: dict[str, JsonObject] = {}
    for file in sorted(Path(text).rglob("*.json")) if is_folder else [recording]:
        reader = open_store(file).read()
        try:
            annotations |= _annotations(loaded, reader.tools)
        finally:
            reader.close()
    return McpTools(loaded, annotations)


def _annotations(config: McpConfig, index: ExchangeIndex[ToolExchange]) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    for server in config.servers:
        called = dict.fromkeys(each.key for each in index if each.key.startswith(f"{server.name}."))
        listed = annotations_of(index, server.name)
        found |= {tool: {} for tool in called} | {f"{server.name}.{tool}": each for tool, each in listed.items()}
    return found


def _plain(name: str) -> str:
    return _APART.sub("_", name.lower()).strip("_")


def _declaration(annotations: JsonObject) -> ToolDeclaration:
    if annotations.get("readOnlyHint") is True:
        return ToolDeclaration(read_only=True)
    return ToolDeclaration(side_effect=True, idempotent=annotations.get("idempotentHint") is True)


class McpStandIn:
    """Stands in for a program's MCP servers in all of its runs. `hub` is mounted on its models' server.

    `declarations` are the servers' annotations, unless `settings` overrule them.

    Raises:
        InputError: the config or the recording cannot be read, or the recording has no tools of these servers.
    """

    def __init__(self, config: str, recording: str | os.PathLike[str], settings: ExploreSettings) -> None:
        self.tools, self._settings, self._config = load_mcp_tools(config, recording), settings, config
        if not self.tools.annotations:
            names = ", ".join(server.name for server in self.tools.config.servers)
            hint = f"record it with its servers: offbook exec --record PATH --mcp {config} -- COMMAND"
            raise InputError(f"the recording has no tools of {names}", source=config, hint=hint)
        self.declarations = self.tools.declarations(settings.declarations)
        self.hub = McpHub(self.tools.config.servers, source_of=self._source, on_tool_call=self._note)
        self._script: Script[ToolExchange] = Script()
        self._runs: dict[str, _McpRun] = {}

    def start_run(self, session: WireSession, observer: RunObserver) -> None:
        """Answer the requests of a session from now on, and have them observed.

        The first run is a strict replay, and writes the script that later ones follow.
        """
        assert session.source is not None
        tools = SessionTools(session, self._script, alike=McpArguments(session.source.tape))
        self._runs[session.name] = _McpRun(observer, tools)

    def check_reached(self) -> None:
        """Raise InputError if no run has reached a server here: it then calls the real ones."""
        if not self.hub.was_reached:
            reason = "the program reached none of these MCP servers here, so their tools run for real"
            raise InputError(reason, source=self._config, hint=UNREACHED_HINT)

    def end_run(self, session: WireSession) -> SessionTools:
        """Forget a run, and return the answers to its tools."""
        return self._runs.pop(session.name).tools

    def write_config(self, path: Path, *, url: str, session: str) -> None:
        """Write the config that leads to a session of the server at `url`."""
        self.hub.write_config(self.tools.config, path, url=url, session=session)

    def command(self, command: Sequence[str], config: Path) -> list[str]:
        """Return the command with the path of the config in it."""
        return [word.replace(PLACEHOLDER, str(config)) for word in command]

    def variables(self, config: Path) -> dict[str, str]:
        """Return the environment variables that name the config."""
        return {CONFIG_VARIABLE: str(config)}

    def effects(self, calls: Iterable[McpToolCall]) -> list[Effect]:
        """Return the effects of tool calls: of those that reached their server, unless they only read."""
        return [
            Effect(
                tool=call.name,
                arguments=call.arguments,
                outcome=_effect_outcome(call.clean, self._declaration(call.name).failed),
            )
            for call in calls
            if call.clean is not None and not self._declaration(call.name).read_only
        ]

    def tool_runs(self, calls: Iterable[McpToolCall]) -> list[ToolRun]:
        """Return tool calls as the program saw them."""
        return [_tool_run(call, self._declaration(call.name)) for call in calls]

    def _declaration(self, tool: str) -> ToolDeclaration:
        return self.declarations.get(tool, UNLISTED)

    def _note(self, call: McpToolCall) -> None:
        run = self._runs.get(call.session)
        if run is not None and call.call:
            run.observer.tool_answered(call, has_effect=bool(self.effects([call])))

    def _source(self, server: str, session: WireSession) -> McpSource | None:
        run = self._runs.get(session.name)
        if run is None:
            return None
        is_default = self._settings.on_divergence == "default"
        return McpReplay(
            server,
            run.tools,
            default=self._settings.default_response if is_default else "ok",
            lenient_requests=self._settings.lenient_requests,
        )


class _McpRun(Struct):
    observer: RunObserver
    tools: SessionTools


def _effect_outcome(answer: McpAnswer, failed: str | None) -> EffectOutcome:
    """Return the outcome of a call that a server answered so: one that asks its user first has done nothing yet."""
    response = answer.response
    result = response.get("result")
    if isinstance(result, dict) and result.get("resultType") == "input_required":
        return "refused"
    outcome = call_outcome(response)
    return "failed" if outcome.error is not None or is_failed_result(outcome.result, failed) else "done"


def _tool_run(call: McpToolCall, declared: ToolDeclaration) -> ToolRun:
    response = call.answer.response
    outcome = call_outcome(response) if response else ToolExchange()
    is_lost = not response or outcome.error is not None
    return ToolRun(
        tool=call.name,
        call=call.call,
        arguments=call.arguments,
        result="" if outcome.result is UNSET else shorten(result_text(outcome.result), MAX_RESULT_CHARS),
        error=(call.fault if outcome.error is None else outcome.error.message) if is_lost else None,
        has_run=call.clean is not None,
        has_failed=call.clean is not None and _effect_outcome(call.clean, declared.failed) == "failed",
        side_effect=declared.has_effect,
    )
