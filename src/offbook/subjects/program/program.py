"""Explores a program in any language: its model calls are answered over HTTP, and its MCP servers are stood in for."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.inferred_tools import InferredTool, inferred_effects, inferred_runs, unseen_calls
from offbook.explore.observer import CLEAN_LIMITS, CallLimits, RunObserver, max_calls_after
from offbook.explore.options import CRASH_VARIANTS, MCP_VARIANTS, PROGRAM_VARIANTS, FaultVariant
from offbook.explore.run import (
    CASE_VARIABLE,
    ErrorKind,
    ModelCall,
    Run,
    RunFailure,
    ToolRun,
    case_name,
    normalize_text,
    normalize_texts,
    overlaps_of,
)
from offbook.explore.settings import DEFAULT_SETTINGS, ExploreSettings
from offbook.faults import FaultPlan
from offbook.presets.preset import known_program, presets_of, with_preset
from offbook.private_folder import PrivateFolder
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.match.continuation import Continuation, gave_up_mark
from offbook.recording.match.folders import NOWHERE, FolderMap, RunFolders
from offbook.recording.recorded_tools import RecordedTools
from offbook.session.script import ModelScript, Script
from offbook.settings import find_project, unknown_tools
from offbook.subjects.crash import first_life
from offbook.subjects.program.fork_server import UnfitProgramError
from offbook.subjects.program.kept_folders import KeptFolders
from offbook.subjects.program.launch import (
    NO_NOTICES,
    ForkLauncher,
    FreshLauncher,
    NodeLauncher,
    Notices,
    ProgramLauncher,
    ProgramLife,
    ProgramLives,
    is_node_command,
)
from offbook.subjects.program.process import (
    Ledger,
    Patience,
    ProgramExit,
    RunFiles,
    error_line,
    is_crash,
    is_own_error,
    named_error,
)
from offbook.subjects.program.python_command import parse_python_command
from offbook.subjects.program.results import NO_PRODUCTS, Products, ProgramProducts
from offbook.tools.child_process import describe_left_running
from offbook.tools.effects import EFFECTS_URL_VARIABLE, EFFECTS_VARIABLE, Effect, prefer_reported, split_reached
from offbook.vendors import (
    DUMMY_KEY,
    api_key_variables,
    base_url_variables,
    named_base_urls,
    plain_environment,
)
from offbook.wire.backend import session_prefix
from offbook.wire.intercept.program_network import NetworkOptions, ProgramNetwork
from offbook.wire.options import ProgramToolOptions, WireOptions
from offbook.wire.server.access import token_variables
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import ExploredRun, WireSession
from offbook.wire.tool_variables import tool_variables
from offbook.working_folder import WorkingFolder

if TYPE_CHECKING:
    from offbook.subjects.program.tools import McpStandIn

RETRY_AFTER_MS = 1.0
"""The `retry-after` of injected errors without one: SDKs then retry at once."""

_URL_ALIAS = "http://offbook"

_Call = TypeVar("_Call", Effect, InferredTool, ToolRun)


class _EndedRun(Struct, frozen=True, kw_only=True):
    """The known facts about a run that has ended."""

    exit: ProgramExit
    observer: RunObserver
    session: WireSession
    reported: list[Effect]
    reached: list[str]
    diverged: str
    continued_by: str
    hung: str
    aliases: Mapping[str, str]
    products: Products
    unknown: tuple[str, ...] = ()


class ProgramSubject:
    """A program, run on a recording. One server answers all runs.

    The result of a run is its exit code, its output, and the files that `settings.results` names. Its effects are those
    that it reports: to the file that OFFBOOK_EFFECTS names, over HTTP, or in its own ledger. Those of tools that it
    reports nothing about are inferred from its conversation. Every run has its own folder for temporary files. With
    `mcp`, we stand in for its MCP servers: their tools can fail, and what they do is observed there.

    Args:
        command: the program and its arguments; `{mcp}` in it is the config that leads to us.
        replay: the recording, or a folder of recordings.
        mcp: the config of its MCP servers.
        env: further environment variables.
        settings: how it is run.
        notices: gets what a user should know about how it is started.

    Raises:
        InputError: the recording or the config cannot be read, or no command is given; from `run`, the program cannot
            be started, or it reports something that is not an effect.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        replay: str | os.PathLike[str],
        mcp: str | None = None,
        env: Mapping[str, str] | None = None,
        settings: ExploreSettings = DEFAULT_SETTINGS,
        notices: Notices = NO_NOTICES,
    ) -> None:
        if not command:
            raise InputError("the command is empty", source="explore")
        self.name = shlex.join(command)
        self._program = known_program(settings.preset, command, presets_of(find_project()))
        settings = with_preset(settings, self._program.preset)
        self._command, self._replay, self._env, self._settings = list(command), replay, dict(env or {}), settings
        self._mcp = None if mcp is None else self._open_mcp(mcp)
        self._declarations = settings.declarations if self._mcp is None else self._mcp.declarations
        settings.check_tools(replay, self._listed_tools, has_run=False)
        named_base_urls(settings.base_url_vars, "")
        self._patience = Patience(settings.deadline_s)
        self._notices = notices
        self._ledger = None if settings.effects is None else Ledger(settings.effects)
        self._script, self._tool_script = ModelScript(), Script[ToolExchange]()
        self._taken = frozenset[str]()
        self.ran_for_real = Counter[str]()
        self._limits: CallLimits | None = None
        self._reporting = frozenset[str]()
        self._running: set[ProgramLife] = set()
        self._is_stopped = False
        self._clean_result: dict[str, Any] | None = None
        self._original = None if settings.workdir is None else PrivateFolder()
        self._working: WorkingFolder | None = None
        if settings.workdir is not None and self._original is not None:
            self._working = WorkingFolder(settings.workdir, self._original.name)
            self._command = self._working.words(self._command)
        self._products = ProgramProducts(settings.results, settings.check, settings.state_of, working=self._working)
        self._launching = Lock()
        options = WireOptions(
            recording=replay,
            strict=True,
            default_response=settings.default_response,
            lenient_requests=settings.lenient_requests,
            folders=FolderMap(self._recorded_folders, NOWHERE),
            retry_after_ms=RETRY_AFTER_MS,
            has_tools=True,
            can_crash=True,
            tools=ProgramToolOptions.of(settings.tools, run_all=settings.runs_tools),
        )
        network = NetworkOptions(
            intercepts=settings.intercept, hosts=settings.intercept_hosts, blocks=settings.block_network
        )
        self._network = ProgramNetwork(network, self._inherited)
        mount = None if self._mcp is None else self._mcp.hub
        server = WireServer(options, token=self._network.token, mount=mount, interception=self._network.interception)
        self._server = server.start()
        try:
            self._kept = KeptFolders(settings.keep, command)  # last: a broken recording leaves no backup
        except InputError:
            self._server.stop()
            raise
        self._fresh_launcher = FreshLauncher(self._patience)
        self._launcher = self._forks = self._choose_launcher()

    @property
    def _recorded_folders(self) -> RunFolders:
        """The folder names of a run, as guessed from a recording that names no folders."""
        work = () if self._working is None else RunFolders.of({}, work=self._working.template).work
        return RunFolders(work=work, temporary=("$TMPDIR",))

    def _choose_launcher(self) -> ProgramLauncher:
        """Return the launcher: one that forks a Python program's runs, skips a Node program's waits, or starts another
        program.
        """
        if self._settings.fresh or self._settings.intercept:  # Python waits for TLS where we do not see it
            return self._fresh_launcher
        program = parse_python_command(self._command, self._inherited)
        if program is not None:
            forks_late = not (self._settings.crashes or self._settings.keep or self._mcp)
            return ForkLauncher(program, self._server, self._patience, forks_late=forks_late, notices=self._notices)
        if is_node_command(self._command, self._inherited):
            return NodeLauncher(self._server, self._patience)
        return self._fresh_launcher

    @property
    def is_forked(self) -> bool:
        """Whether runs are forked, or differ from a real start otherwise."""
        return self._launcher is not self._fresh_launcher

    def start_fresh(self, reason: str) -> None:
        """Start every further run anew, in real time, and note why."""
        with self._launching:
            if self.is_forked:
                self._notices.warn(f"every case starts the program anew: {reason}")
                self._launcher = self._fresh_launcher

    @property
    def variants(self) -> Sequence[FaultVariant]:
        """The faults that can fire: model faults, and with MCP servers those of their tools; other tools run inside."""
        return (*(PROGRAM_VARIANTS if self._mcp is None else MCP_VARIANTS), *CRASH_VARIANTS)

    @property
    def restored(self) -> list[str]:
        """The kept folders that an earlier exploration had left changed because it was killed."""
        return self._kept.restored

    def _open_mcp(self, config: str) -> McpStandIn:
        from offbook.subjects.program.tools import McpStandIn  # noqa: PLC0415 - only programs with MCP servers need it

        return McpStandIn(config, self._replay, self._settings)

    @property
    def _listed_tools(self) -> list[str]:
        return [] if self._mcp is None else self._mcp.tools.names

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        with self._exclusive():
            return self._run(plan, continuation)

    def run_fresh(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        """Run it from the start of its interpreter, in real time."""
        with self._exclusive():
            return self._run_by(self._fresh_launcher, plan, continuation)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        exclusive = nullcontext() if self._ledger is None else self._ledger.exclusive()
        with exclusive, self._products.exclusive():
            self._products.prepare()
            yield

    def _run(self, plan: FaultPlan, continuation: Continuation) -> Run:
        launcher = self._launcher
        try:
            return self._run_by(launcher, plan, continuation)
        except UnfitProgramError as error:
            if self._is_stopped:
                return Run(hung="it was stopped")
            self.start_fresh(str(error))
            return self._run_by(self._launcher, plan, continuation)

    def _run_by(self, launcher: ProgramLauncher, plan: FaultPlan, continuation: Continuation) -> Run:
        with ExitStack() as stack:
            place = stack.enter_context(launcher.place())
            name, files = place.name, RunFiles(place.folder, self._ledger)
            url, bare_url = self._server.session_url(name), self._server.bare_url + session_prefix(name)
            words = self._program.command(self._command_in(files), url, bare_url=bare_url)
            command = stack.enter_context(self._kept.run(words, Path(place.folder)))
            environment = self._environment(name, files, waits_for_effects=self._settings.crashes or plan.can_crash)
            environment[CASE_VARIABLE] = case_name(plan, continuation)
            working = None if self._working is None else self._working.copy_to(place.folder)
            environment |= {} if working is None else {"PWD": str(working)}
            launched = launcher.launch(place, command, environment, is_clean=self._limits is None, working=working)
            lives = ProgramLives(launched.start, files)
            observer = RunObserver(
                self._script,
                lives,
                limits=self._limits or CLEAN_LIMITS,
                now_s=launched.now_s,
                sent=launched.sent,
                declarations=self._declarations,
            )
            explored_run = replace(
                self._explored_run(observer, plan, continuation),
                clock=launched.response_clock,
                folders=RunFolders.of(environment, work=working or Path.cwd()),
            )
            session = self._server.start_session(name, faults=plan, explored_run=explored_run)
            if self._mcp is not None:
                self._mcp.start_run(session, observer)
                self._mcp.write_config(files.mcp_config, url=self._server.url, session=name)
            ended = self._live(lives.process, observer, session, files, working)
            before = None
            while session.plan.crashes_of(session.faults.fired_lines):
                lives.check_crash()
                before = first_life(self._run_of(ended), before)
                session.follow(session.plan.without_crashes(session.faults.fired_lines))
                ended = self._live(lives.restart(), observer, session, files, working)
            served = None if self._mcp is None else self._mcp.end_run(session)
            continued_by, unknown = ("", []) if served is None else (served.continued_by, list(served.unknown))
            if (tools := self._server.tools_of(session)) is not None:
                continued_by, unknown = continued_by or tools.continued_by, [*unknown, *tools.unknown]
                with self._launching:
                    self.ran_for_real += tools.ran
                for remark in tools.remarks if self._limits is None else ():
                    self._notices.warn(remark)
            self._server.end_session(name)
            ended = replace(ended, continued_by=ended.continued_by or continued_by, unknown=tuple(unknown))
            if not ended.hung:
                products = self._products.collect(ended.exit, files.temporary, environment, ended.aliases, working)
                ended = replace(ended, products=products)
        if self._limits is None:
            self._note_clean_run(ended)
        return replace(self._run_of(ended), first_life=before)

    def _live(
        self,
        process: ProgramLife,
        observer: RunObserver,
        session: WireSession,
        files: RunFiles,
        working: Path | None,
    ) -> _EndedRun:
        """Let the program live until it ends, or is killed, and return the known facts about the run so far."""
        program_exit = self._wait_for(process, observer)
        hung = observer.endless or ("" if program_exit.code is not None else process.hung or "it was stopped")
        is_cut_off = program_exit.code is None or program_exit.code < 0
        reported, reached = split_reached(self._reported(files, session, is_cut_off=is_cut_off))
        return _EndedRun(
            exit=program_exit,
            observer=observer,
            session=session,
            reported=reported,
            reached=[*reached, *session.reached],
            diverged=self._diverged(session),
            continued_by=session.continued_by,
            hung=hung,
            aliases=self._aliases(session.name, files) | _working_aliases(session, working),
            products=NO_PRODUCTS,
        )

    def _explored_run(self, observer: RunObserver, plan: FaultPlan, continuation: Continuation) -> ExploredRun:
        on_divergence = self._settings.on_divergence
        return ExploredRun(
            self._script,
            observer,
            on_miss="stop" if on_divergence == "live" else on_divergence,
            continuation=continuation,
            mark=gave_up_mark(plan),
            tool_script=self._tool_script,
            declarations=self._declarations,
        )

    def _note_clean_run(self, ended: _EndedRun) -> None:
        if not ended.exit.code and not ended.hung:
            self._products.check_clean(ended.products)
            if self._mcp is not None:
                self._mcp.check_reached()
            if self._working is not None:
                self._notices.remark("the result is what a run changes in its folder; what it prints is not compared")
        tool_count = len(ended.observer.tool_calls) + len(ended.observer.program_tools)
        most = max_calls_after(len(ended.observer.calls) + tool_count)
        self._taken = frozenset(call.tool for call in ended.observer.program_tools)
        self._check_taken(ended.observer)
        self._limits = CallLimits(models=most, tools=most)
        self._reporting = frozenset(effect.tool for effect in ended.reported)
        self._settings.check_tools(self._replay, [*self._reporting, *self._listed_tools])
        for tool in self._settings.read_only:
            if tool in self._reporting:
                reason = f"the program reports effects of {tool!r}, which is declared to have none"
                raise InputError(reason, source="read_only", hint=f"use -o side_effects={tool}")
        if self._ledger is not None and not ended.reported and not ended.exit.code:
            hint = "the path is relative to the working directory, or starts with $TMPDIR/"
            reason = "the run without a fault reported no effect there"
            raise InputError(reason, source=f"effects={self._ledger.path}", hint=hint)

    def _check_taken(self, observer: RunObserver) -> None:
        """Raise InputError if a recorded tool ran for real without asking."""
        if self._settings.runs_tools:
            return
        recorded = RecordedTools(self._replay).answered
        inferred = dict.fromkeys(tool.tool for tool in observer.inferred_tools(observed=self._taken))
        names = [name for name in inferred if name in recorded and not self._is_of_mcp(name)]
        if names:
            reason = f"recorded, but not taken over in this run, so the program ran it for real: {', '.join(names)}"
            hint = f'say where it is, [tools.{names[0]}] function = "module:name", or allow it: --run-tools'
            noted = " ".join(unknown_tools(self._settings.tools, {*recorded, *inferred}))
            raise InputError(reason, source="explore", hint=noted or hint)

    def _diverged(self, session: WireSession) -> str:
        """Return the first unrecorded model call. The clean run must have no unrecorded call at all."""
        return session.misses[0].text if self._limits is None and session.misses else session.diverged

    @staticmethod
    def _reported(files: RunFiles, session: WireSession, *, is_cut_off: bool) -> list[Effect]:
        for problem in islice(session.refused_effects, 1):
            raise problem
        return [*files.read_effects(is_cut_off=is_cut_off), *session.effects]

    def stop(self) -> None:
        """Kill the running programs, and later ones."""
        self._is_stopped = True
        for process in list(self._running):
            process.kill()
        self._products.stop()

    def close(self) -> None:
        """Kill the running programs, stop the server, and restore the result files."""
        self.stop()
        self._forks.close()
        if left := describe_left_running(self._server.url):
            self._notices.warn(left)
        self._server.stop()
        self._network.close()
        self._products.close()
        self._kept.close()
        if self._original is not None:
            self._original.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for(self, process: ProgramLife, observer: RunObserver) -> ProgramExit:
        self._running.add(process)
        if self._is_stopped:
            process.kill()
        try:
            return process.run(observer)
        finally:
            self._running.discard(process)

    def _command_in(self, files: RunFiles) -> list[str]:
        return self._command if self._mcp is None else self._mcp.command(self._command, files.mcp_config)

    @property
    def _inherited(self) -> dict[str, str]:
        return {"PYTHONHASHSEED": "0"} | os.environ | self._env

    def _environment(self, name: str, files: RunFiles, *, waits_for_effects: bool) -> dict[str, str]:
        url = self._server.session_url(name)
        own = {
            **base_url_variables(url),
            **named_base_urls(self._settings.base_url_vars, url),
            **api_key_variables(self._server.token),
            **token_variables(self._server.token),
            "TMPDIR": str(files.temporary),
            EFFECTS_VARIABLE: str(files.effects.path),
            **({EFFECTS_URL_VARIABLE: f"{url}/_offbook/effects"} if waits_for_effects else {}),
            **({} if self._mcp is None else self._mcp.variables(files.mcp_config)),
            **tool_variables(self._inherited, url, self._settings.tools),
        }
        plain = plain_environment(self._inherited, url, is_replayed=True)
        environment = self._network.environment_of(own, self._server.url, plain=plain, session=name)
        return self._program.environment(environment, is_replayed=True)

    def _aliases(self, name: str, files: RunFiles) -> dict[str, str]:
        """Return the run-specific texts, and their replacements."""
        url, session_url = self._server.url, self._server.session_url(name)
        address, path, port = urlsplit(url).netloc, urlsplit(url).path, self._server.address[1]
        return {
            **self._network.aliases(session=name),
            session_url: _URL_ALIAS,
            self._server.bare_url + session_prefix(name): _URL_ALIAS,
            url: _URL_ALIAS,
            address: "offbook",
            urlsplit(session_url).path: "",
            path: "",
            self._server.token: DUMMY_KEY,
            f"port={port}": "port=…",
            f"port {port}": "port …",
            str(files.temporary): "$TMPDIR",
            str(files.effects.path): f"${EFFECTS_VARIABLE}",
            str(files.mcp_config): "{mcp}",
        }

    def _run_of(self, ended: _EndedRun) -> Run:
        session, aliases = ended.session, ended.aliases
        calls = [_asking(each, aliases) for each in ended.observer.calls] if self._working else ended.observer.calls
        retries = ended.observer.retries
        taken = self._taken | {call.tool for call in ended.observer.program_tools}
        inferred = ended.observer.inferred_tools(observed=taken)
        tools = [_with_aliases(each, aliases) for each in inferred if not self._is_of_mcp(each.tool)]
        observed = [_with_aliases(each, aliases) for each in self._observed_effects(ended.observer)]
        result = {"exit": ended.exit.code, "stdout": normalize_text(ended.exit.stdout, aliases)}
        written = {} if ended.products.files is None else {"files": ended.products.files}
        if self._working is not None and not ended.hung:
            result = self._without_output(result | written)
        return Run(
            result=None if ended.hung else result | written,
            broken=ended.products.broken,
            error=self._error(ended.exit, aliases),
            calls=tuple(calls),
            tools=(*self._observed_tools(ended.observer, aliases), *inferred_runs(tools, self._declarations)),
            effects=(*observed, *self._effects([_with_aliases(each, aliases) for each in ended.reported], tools)),
            unseen=tuple(each for each in unseen_calls(tools) if each.tool not in self._reporting),
            declarations=self._declarations,
            fired=tuple(str(planned) for planned in session.fired),
            marks=tuple(session.faults.marks),
            diverged=normalize_text(ended.diverged, aliases),
            continuation=ended.continued_by,
            hung=ended.hung,
            paths={"retry": retries} if retries else {},
            is_program=True,
            reported=tuple(effect.tool for effect in session.effects),
            overlaps=overlaps_of(session.order),
            unknown_reads=ended.unknown or UNSET,
            state=ended.products.state,
            reached=tuple(dict.fromkeys(ended.reached)),
        )

    # What an agent prints about its work differs from run to run, and its work is the folder. What it prints counts
    # where the work is another: there it may say so.
    def _without_output(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a run in a working folder, with the output of the clean run if it has done the same."""
        clean = self._clean_result = self._clean_result or result
        return clean if result | {"stdout": ""} == clean | {"stdout": ""} else result

    def _is_of_mcp(self, tool: str) -> bool:
        """Return whether a tool that a model requests is an MCP server's, which is observed there."""
        return self._mcp is not None and bool(self._mcp.tools.find(tool))

    def _observed_effects(self, observer: RunObserver) -> list[Effect]:
        return [*([] if self._mcp is None else self._mcp.effects(observer.tool_calls)), *observer.program_effects()]

    def _observed_tools(self, observer: RunObserver, aliases: Mapping[str, str]) -> list[ToolRun]:
        runs = [] if self._mcp is None else self._mcp.tool_runs(observer.tool_calls)
        return [_with_aliases(run, aliases) for run in (*runs, *observer.program_runs())]

    def _effects(self, reported: Sequence[Effect], tools: Sequence[InferredTool]) -> tuple[Effect, ...]:
        inferred = inferred_effects(tools, self._declarations)
        return prefer_reported(reported, inferred, reporting=self._reporting)

    def _error(self, ended: ProgramExit, aliases: Mapping[str, str]) -> RunFailure | None:
        """Return the error that ended the program, by its exit code or by the class that its output names."""
        if not ended.code:
            return None
        declared, code = self._settings.declared, str(ended.code)
        declared_as = code if code in declared else named_error(ended.stderr, declared)
        is_crashed = is_crash(ended.stderr, ended.code) and (bool(declared) or not is_own_error(ended.stderr))
        kind: ErrorKind = "declared" if declared_as else "undeclared" if is_crashed else "gave up"
        name = f"exit {ended.code}" if ended.code > 0 else f"signal {-ended.code}"
        return RunFailure(kind, name, normalize_text(error_line(ended.stderr), aliases), declared_as)


def _working_aliases(session: WireSession, working: Path | None) -> dict[str, str]:
    """Map the names of the working folder in this run and its recording to the name used in all runs."""
    return {} if working is None else dict.fromkeys((str(working), *session.folders.recorded.work), "$PWD")


def _asking(call: ModelCall, aliases: Mapping[str, str]) -> ModelCall:
    """Return a model call whose requested tools use the names that are the same in every run."""
    return replace(call, asks_for=tuple((tool, normalize_texts(args, aliases)) for tool, args in call.asks_for))


def _with_aliases(call: _Call, aliases: Mapping[str, str]) -> _Call:
    """Return the effect or tool with run-independent names in its arguments and its result."""
    named = replace(call, arguments=normalize_texts(call.arguments, aliases))
    return named if isinstance(named, Effect) else replace(named, result=normalize_text(named.result, aliases))
