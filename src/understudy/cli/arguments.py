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
