"""The arguments of `offbook exec` and `offbook serve`: each option with its help, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.settings import Option, ToolSettings

if TYPE_CHECKING:
    from offbook.faults import FaultPlan
    from offbook.wire.intercept.program_network import NetworkOptions

RecordMode: TypeAlias = Literal["append", "once", "new", "all", "fresh"]
LatencyModel: TypeAlias = Literal["constant", "normal", "replay"]

EXACT = "Answer equal requests only, none that differs in who asks, when and where."
LENIENT_REQUESTS = "Also answer requests that the real API would refuse."

BaseUrlVars: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "Further variables that hold the address of the program's models: NAME, or NAME=/PATH.",
        was="--base-url-var",
        metavar="NAME",
    ),
]
PresetName: TypeAlias = Annotated[
    str,
    Option(
        "What is known of the program: the name of a preset (offbook agents), auto (by the command) or none.",
        metavar="NAME",
    ),
]
Intercept: TypeAlias = Annotated[
    bool,
    Option(
        "Act as an HTTPS proxy for programs that ignore base-URL variables. TLS is intercepted for this run only.",
        "--intercept",
    ),
]
InterceptHosts: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "Further hosts to intercept: llm.example.org, or *.example.org. HOST=URL says where to record from.",
        was="--intercept-host",
        metavar="HOST",
    ),
]
BlockNetwork: TypeAlias = Annotated[bool, Option("Refuse connections to all hosts but this machine.")]


WORKDIR = Option(
    "Run the program in a copy of this folder. What it changes there is its result.",
    "--workdir",
    metavar="TEMPLATE",
    is_path=True,
)


class WireArguments(Struct, frozen=True, kw_only=True):
    """The common options of `exec` and `serve`: answers, faults and recording. `[record]` applies to both."""

    section: ClassVar[str] = "exec"

    replay: Annotated[
        str | None,
        Option(
            "Answer from this recording, or from a folder of recordings.",
            "--replay --recording",
            metavar="PATH",
            is_per_run=True,
            is_once=True,
        ),
    ] = None
    record: Annotated[
        str | None,
        Option(
            "Call the real APIs, and record every call here.", "--record", metavar="PATH", is_per_run=True, is_once=True
        ),
    ] = None
    record_mode: Annotated[
        RecordMode | None,
        Option(
            "append: add every call; once: record only if there is no recording; new: add missing calls; all: replace "
            "repeated calls; fresh: replace everything.",
            "--record-mode",
            key="mode",
            metavar="MODE",
            section="record",
        ),
    ] = None
    upstreams: Annotated[
        tuple[str, ...],
        Option(
            "The address of an API: openai=http://host/v1. Repeatable.",
            "--upstream",
            metavar="VENDOR=URL",
            section="record",
        ),
    ] = ()
    upstream_end_wait_s: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Option(
            "Seconds to hold a stream's last frame while waiting for trailing data.",
            key="upstream_end_wait",
            metavar="SECONDS",
            section="record",
            unset="2",
        ),
    ] = None
    faults: Annotated[
        tuple[str, ...],
        Option(
            "Inject a fault: 'call=2: timeout'. Repeatable.", "--fault", key="fault", metavar="FAULT", is_per_run=True
        ),
    ] = ()
    plan: Annotated[str | None, Option("A JSON file of faults.", "--plan", metavar="FILE", is_per_run=True)] = None
    mcp: Annotated[
        str | None,
        Option(
            "Also record or replay the MCP servers of this config. {mcp} in the command of exec becomes the config to "
            "use; serve offers them at /mcp/NAME and over stdio.",
            "--mcp",
            metavar="CONFIG",
            is_path=True,
        ),
    ] = None
    lenient: Annotated[bool, Option("Answer unrecorded requests with a default.", "--lenient")] = False
    default_response: Annotated[str | None, Option("The text of that default. Implies lenient.", metavar="TEXT")] = None
    lenient_requests: Annotated[bool, Option(LENIENT_REQUESTS)] = False
    exact: Annotated[bool, Option(EXACT, "--exact")] = False
    latency_model: Annotated[
        LatencyModel,
        Option("The latency of answers: latency_ms (constant), around it (normal), or as recorded (replay)."),
    ] = "constant"
    latency_ms: Annotated[Annotated[float, Meta(ge=0)], Option("The latency of an answer, in milliseconds.")] = 0.0
    retry_after_ms: Annotated[
        Annotated[float, Meta(ge=0)] | None, Option("Send retry-after with injected errors, in milliseconds.")
    ] = None
    trace: Annotated[
        str | None, Option("A file to write each event to, as a line of JSON.", metavar="FILE", is_path=True)
    ] = None
    metrics: Annotated[
        str | None,
        Option("A file to write Prometheus metrics to at the end, or a port to serve them at.", metavar="FILE|PORT"),
    ] = None
    spans: Annotated[
        str | None, Option("A file to write OpenTelemetry spans to, as lines of JSON.", metavar="FILE", is_path=True)
    ] = None
    otel: Annotated[
        str | None, Option("Where to send OpenTelemetry spans and metrics: http://127.0.0.1:4318.", metavar="URL")
    ] = None
    strict_unused: Annotated[bool, Option("Exit with 3 if an exchange was unused or overused.", "--strict-unused")] = (
        False
    )
    quiet: Annotated[bool, Option("Print failures only.", "--quiet -q")] = False
    tools: dict[str, ToolSettings] = {}

    @property
    def recording(self) -> str:
        """The replayed or written recording."""
        return self.replay or self.record or ""

    @property
    def is_folder(self) -> bool:
        """Whether calls are answered from a folder, which may have a recording for each session."""
        return self.replay is not None and "://" not in self.replay and Path(self.replay).is_dir()

    @property
    def live_from_call(self) -> int | None:
        """The number of the first call that the real APIs answer instead of the recording."""
        return None

    @property
    def answers_alone(self) -> bool:
        """Whether the default answers every call, without a recording and a real API."""
        return False

    def fault_plan(self) -> FaultPlan:
        """Return the faults of the lines, followed by those of the file.

        Raises:
            InputError: a line or the file cannot be read.
        """
        from offbook.faults import FaultPlan, parse_fault  # noqa: PLC0415 - help shows options without faults

        plan = FaultPlan() if self.plan is None else FaultPlan.load(self.plan)
        return FaultPlan([*map(parse_fault, self.faults), *plan], chaos=plan.chaos)

    def check_together(self) -> None:
        """Raise InputError if options exclude each other or have no effect."""
        has_source = self.live_from_call is not None or self.answers_alone
        if (self.replay is None) == (self.record is None) and not has_source:
            reason = "--record and --replay exclude each other" if self.record else "--replay or --record is required"
            hint = "use only one of them" if self.record else "add --replay PATH, or --record PATH to make a recording"
            raise InputError(reason, hint=hint)
        recording_options = {
            "--upstream": bool(self.upstreams),
            "upstream_end_wait": self.upstream_end_wait_s is not None,
            "--record-mode": self.record_mode is not None,
        }
        for option, is_given in recording_options.items():
            if self.record is None and is_given and self.live_from_call is None:
                raise InputError(f"{option} requires --record", hint="add --record PATH")
        if self.replay is None and (self.lenient or self.default_response is not None) and not self.answers_alone:
            option = "--lenient" if self.lenient else "default_response"
            raise InputError(f"{option} requires --replay", hint="leave it out")
        if self.record is not None and "://" not in self.record and Path(self.record).suffix != ".json":
            file = Path(self.record)
            named = file / "run.json" if file.is_dir() or not file.name else file.with_suffix(".json")
            hint = f"name it {named}, or sqlite:///path.db: a folder holds only those"
            raise InputError("a recording is a file named *.json", source=self.record, hint=hint)

    def fitting(self, given: Self) -> Self:
        """Return the options without those of the config that do not apply to this run. `given` are the options without
        the config.
        """
        return replace(self, **{name: getattr(given, name) for name in self._unfit()})

    def _unfit(self) -> set[str]:
        """Return the fields that the config must not set in this run."""
        unfit = set() if self.record or self.live_from_call else {"record_mode", "upstreams", "upstream_end_wait_s"}
        return unfit if self.replay is not None else unfit | {"lenient", "default_response"}


class ExecArguments(WireArguments, frozen=True, kw_only=True):
    """The arguments of `offbook exec`."""

    live_from: Annotated[
        str | None,
        Option(
            "Answer from the recording until this call, then from the real APIs, and record the whole run.",
            "--live-from",
            metavar="call=N",
            is_per_run=True,
        ),
    ] = None
    model: Annotated[
        str, Option("With --live-from: call this model instead.", "--model", metavar="NAME", is_per_run=True)
    ] = ""
    golden: Annotated[
        str | None,
        Option(
            "Exit with 1 if the tool calls differ from those approved in this file.",
            metavar="PATH",
            is_path=True,
        ),
    ] = None
    workdir: Annotated[str | None, WORKDIR] = None
    preset: PresetName = "auto"
    base_url_vars: BaseUrlVars = ()
    intercept: Intercept = False
    intercept_hosts: InterceptHosts = ()
    block_network: BlockNetwork = False
    run_tools: Annotated[bool, Option("In a replay, run the program's tools for real.", "--run-tools")] = False
    allow_no_calls: Annotated[bool, Option("Do not exit with 3 if there was no call.")] = False
    time_limit: Annotated[
        float | None,
        Option(
            "Stop the program after this time, and exit with 124.",
            was="--time-limit --deadline --timeout",
            metavar="SECONDS",
        ),
    ] = None
    port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)], Option("The port to listen on; 0 is any free port.", metavar="N")
    ] = 0
    open: Annotated[bool, Option("Let every program of this machine use the port of the run, without a token.")] = False
    report: Annotated[
        str | None,
        Option("Write the outcome of each call to this JSON file.", "--report", metavar="PATH", is_path=True),
    ] = None

    @property
    def live_from_call(self) -> int | None:
        if self.live_from is None:
            return None
        name, _, number = self.live_from.strip().partition("=")
        if name != "call" or not number.isascii() or not number.isdecimal() or not 0 < int(number) < 10**9:
            hint = "--live-from call=4"
            raise InputError(f"expected call=N, got {self.live_from!r}", source="--live-from", hint=hint)
        return int(number)

    @property
    def network(self) -> NetworkOptions:
        """The intercepted and blocked hosts."""
        from offbook.wire.intercept.program_network import NetworkOptions  # noqa: PLC0415

        return NetworkOptions(intercepts=self.intercept, hosts=self.intercept_hosts, blocks=self.block_network)

    def check_together(self) -> None:
        self.network.check()
        if self.live_from is None and self.model:
            raise InputError("--model requires --live-from", hint=_FORK_EXAMPLE)
        super().check_together()
        if self.live_from is not None:
            if self.replay is None:
                raise InputError("--live-from requires --replay", hint=_FORK_EXAMPLE)
            excluded = {
                "--mcp": self.mcp is not None,
                "a folder of recordings": self.is_folder,
                "--lenient": self.lenient,
                "default_response": self.default_response is not None,
                f"--record-mode {self.record_mode}": self.record_mode not in (None, "fresh"),
            }
            for what, is_given in excluded.items():
                if is_given:
                    raise InputError(f"--live-from excludes {what}", hint="use only one of them")

    def _unfit(self) -> set[str]:
        unfit = super()._unfit() | (set() if self.intercept else {"intercept_hosts"})
        if self.live_from is not None:
            unfit |= {"mcp", "lenient", "default_response", "record_mode"}
        return unfit


_FORK_EXAMPLE = "offbook exec --replay PATH --live-from call=4 --model NAME -- COMMAND …"


class ServeArguments(WireArguments, frozen=True, kw_only=True):
    """The arguments of `offbook serve`."""

    section: ClassVar[str] = "serve"

    lenient_requests: Annotated[bool, Option(LENIENT_REQUESTS, "--lenient-requests", was="--strict-requests")] = False

    host: Annotated[
        str,
        Option(
            "Listen on this address (by default 127.0.0.1). Others than loopback require --api-key.",
            "--host",
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)],
        Option("Listen on this port; by default any free port.", "--port", metavar="N"),
    ] = 0
    api_key: Annotated[
        str,
        Option(
            "The key that clients must send.", "--api-key", metavar="KEY", variable="OFFBOOK_API_KEY", is_per_run=True
        ),
    ] = ""
    open: Annotated[
        bool,
        Option("Let every program of this machine use a recording server, without a token.", "--open", is_per_run=True),
    ] = False
    allow_hosts: Annotated[
        tuple[str, ...],
        Option("Names of this server besides localhost: agent.test, *.test.", was="--allow-host", metavar="NAME"),
    ] = ()
    allow_origins: Annotated[
        tuple[str, ...],
        Option("Sites whose pages may use the server: https://app.test.", was="--allow-origin", metavar="URL"),
    ] = ()
    processes: Annotated[
        Annotated[int, Meta(ge=1, le=256)],
        Option("The number of processes on one port, for load tests.", was="--processes", metavar="N"),
    ] = 1
    session_group: Annotated[
        str,
        Option(
            "Share sessions with all servers of this group; with --replay redis://….",
            was="--session-group",
            metavar="NAME",
        ),
    ] = ""
    as_json: Annotated[bool, Option("Print JSON.", "--json", key="json", is_per_run=True)] = False

    @property
    def answers_alone(self) -> bool:
        return self.replay is None and self.record is None and (self.lenient or self.default_response is not None)

    def _unfit(self) -> set[str]:
        unfit = super()._unfit()
        if not (self.replay or "").startswith(("redis://", "rediss://")):
            unfit.add("session_group")
        if self.processes > 1 or self.session_group:  # processes do not share what these need
            unfit |= {"strict_unused", "mcp", "record_mode", "trace", "metrics", "spans", "otel"}
        return unfit
