"""Options and arguments that several commands share, and the arguments of a program after `--`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import typer

from offbook.cli.lazy import QuickCommand

Recording: TypeAlias = Annotated[str, typer.Argument(help="A recording: path.json, or sqlite:///path.db.")]
Recordings: TypeAlias = Annotated[list[str], typer.Argument(help="Recordings: path.json, or sqlite:///path.db.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", "-n", help="Tell what would change, change nothing.")]
Patterns: TypeAlias = Annotated[
    list[str], typer.Option("--pattern", help="A further regular expression for secrets. May be repeated.")
]
Fields: TypeAlias = Annotated[
    list[str], typer.Option("--field", help="A further name of a JSON field that holds a secret. May be repeated.")
]

Flow: TypeAlias = Annotated[str, typer.Argument(help="A workflow file.", show_default=False)]
Flows: TypeAlias = Annotated[list[str], typer.Argument(help="Workflow files.", show_default=False)]
Settings: TypeAlias = Annotated[
    list[str], typer.Option("--set", help="A key of the state and its value, JSON or text: a.b=1. May be repeated.")
]
StateFile: TypeAlias = Annotated[str | None, typer.Option("--state", help="A JSON file with keys of the state.")]
Faults: TypeAlias = Annotated[
    list[str], typer.Option("--fault", help="Fail on purpose: 'call=2: timeout'. May be repeated.")
]
Plan: TypeAlias = Annotated[str | None, typer.Option("--plan", help="A JSON file of faults.")]
Trace: TypeAlias = Annotated[
    str | None, typer.Option("--trace", help="Write every event to this file, a JSON line each.")
]
RUNS_DIR = ".offbook/runs"
RunsDir: TypeAlias = Annotated[str, typer.Option(envvar="OFFBOOK_RUNS_DIR", help="Where runs are kept.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what failed.")]
RealTime: TypeAlias = Annotated[
    bool, typer.Option("--real-time", help="Let the waits of an answer from a recording take their time.")
]
StrictUnused: TypeAlias = Annotated[
    bool, typer.Option("--strict-unused", help="Exit with 3 if an exchange of the recording was not used.")
]

RecordMode: TypeAlias = Literal["append", "once", "new", "all", "fresh"]
LatencyModel: TypeAlias = Literal["constant", "normal", "replay"]
ReplayFrom: TypeAlias = Annotated[
    list[str], typer.Option("--replay", metavar="PATH", help="Answer from this recording, or a folder of them.")
]
RecordTo: TypeAlias = Annotated[
    list[str], typer.Option("--record", metavar="PATH", help="Ask the real APIs, and keep every call here.")
]
RecordModeOption: TypeAlias = Annotated[
    RecordMode | None,
    typer.Option(
        "--record-mode",
        metavar="MODE",
        help="append every call (the default), keep to what is there (once), add what is missing (new), replace what "
        "is touched (all), or everything (fresh).",
    ),
]
Upstreams: TypeAlias = Annotated[
    list[str],
    typer.Option("--upstream", metavar="VENDOR=URL", help="Where an API is, as openai=http://host/v1. Repeatable."),
]
Lenient: TypeAlias = Annotated[
    bool, typer.Option("--lenient", help="Answer what the recording lacks all the same, with a default.")
]
DefaultResponse: TypeAlias = Annotated[
    str | None, typer.Option("--default-response", help="The text of that default; makes it lenient.")
]
LatencyModelOption: TypeAlias = Annotated[
    LatencyModel,
    typer.Option(
        "--latency-model",
        metavar="MODEL",
        help="How long answers take: --latency-ms (constant), about that (normal), or as recorded (replay).",
    ),
]
LatencyMs: TypeAlias = Annotated[float, typer.Option("--latency-ms", help="How long an answer takes.")]
RetryAfterMs: TypeAlias = Annotated[
    float | None,
    typer.Option("--retry-after-ms", help="Tell clients to try again so soon after an error that was injected."),
]
Port: TypeAlias = Annotated[
    int, typer.Option("--port", metavar="N", min=0, max=65535, help="Listen at this port; 0 is any that is free.")
]


PROGRAM_ARGS_KEY = "offbook.behind_dashes"


class ProgramCommand(QuickCommand):
    """Sets what stands behind the first `--` apart, for `behind_dashes`, so that it is not taken for arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[PROGRAM_ARGS_KEY] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)


def program_args(ctx: typer.Context) -> list[str] | None:
    """What stands behind `--`; None if there is none."""
    found: list[str] | None = ctx.meta.get(PROGRAM_ARGS_KEY)
    return found
