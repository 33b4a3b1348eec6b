"""offbook graph: draws a workflow."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from offbook.cli.options import Flow

SUFFIXES: dict[str, Literal["mermaid", "svg"]] = {".mermaid": "mermaid", ".mmd": "mermaid", ".svg": "svg"}


def graph(
    flow: Flow,
    format: Annotated[
        Literal["text", "mermaid", "svg"] | None,
        typer.Option("--format", "-f", help="The format; by default that of the suffix of --output, else text."),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="The file to write.")] = None,
) -> None:
    """Draw a workflow as text, Mermaid or SVG.

    Nothing is run.

    [bold]Examples[/bold]

      offbook graph flow.yaml

      offbook graph flow.yaml --output flow.svg
    """
    from pathlib import Path

    from offbook.errors import InputError
    from offbook.workflow import draw, load_workflow

    picture = draw(load_workflow(flow), format or _format_of(output))
    if output is None:
        typer.echo(picture, nl=False)
        return
    try:
        Path(output).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InputError(error.strerror or str(error), source=output) from None


def _format_of(output: str | None) -> Literal["text", "mermaid", "svg"]:
    """Return the format of a file by its suffix."""
    from pathlib import Path

    return "text" if output is None else SUFFIXES.get(Path(output).suffix.lower(), "text")
