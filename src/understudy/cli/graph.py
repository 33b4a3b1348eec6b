"""understudy graph: a picture of a workflow."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from understudy.cli.arguments import Flow


def graph(
    flow: Flow,
    format: Annotated[
        Literal["text", "mermaid", "svg"], typer.Option("--format", "-f", help="What kind of picture.")
    ] = "text",
    output: Annotated[str | None, typer.Option("--output", "-o", help="Where the picture goes.")] = None,
) -> None:
    """Draw a workflow, as text, as a Mermaid diagram or as an SVG picture. Nothing is run.

    [bold]Examples[/bold]

      understudy graph flow.yaml

      understudy graph flow.yaml --format svg --output flow.svg
    """
    from pathlib import Path

    from understudy.errors import InputError
    from understudy.workflow import draw, load_workflow

    picture = draw(load_workflow(flow), format)
    if output is None:
        typer.echo(picture, nl=False)
        return
    try:
        Path(output).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InputError(error.strerror or str(error), source=output) from None
