"""Arguments and options that several commands share."""

from typing import Annotated, TypeAlias

import typer

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
RUNS_DIR = ".understudy/runs"
RunsDir: TypeAlias = Annotated[str, typer.Option(envvar="UNDERSTUDY_RUNS_DIR", help="Where runs are kept.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what failed.")]
RealTime: TypeAlias = Annotated[
    bool, typer.Option("--real-time", help="Let the waits of an answer from a recording take their time.")
]
