"""offbook validate, graph, schema: checks and draws workflow files, and prints their JSON schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from offbook.cli.options import AsJson, Flow, Flows

if TYPE_CHECKING:
    from offbook.errors import Problem


def validate(flows: Flows, as_json: AsJson = False) -> None:
    """Check workflow files and the files that they include.

    Prints every problem with its file, line and column, and exits with 2 if there is one. Nothing runs, and no tool is
    imported. Steps without a model are listed, but are no problem: another file, or --model, must name the model.

    [bold]Examples[/bold]

      offbook validate flow.yaml

      offbook validate flows/*.yaml --json
    """
    import orjson

    from offbook.cli import BAD_INPUT
    from offbook.cli.output.console import echo, echo_json

    problems, unnamed = dict[str, "tuple[Problem, ...]"](), dict[str, list[str]]()
    for flow in flows:
        problems[flow], unnamed[flow] = _check_file(flow)
    if as_json:
        rows = [problem._asdict() for found in problems.values() for problem in found]
        without = {flow: steps for flow, steps in unnamed.items() if steps}
        echo_json(orjson.dumps({"files": len(problems), "problems": rows, "without_model": without}))
    else:
        for flow, found in problems.items():
            echo("\n".join(map(str, found)) if found else f"{flow}: ok{_unnamed_models_note(unnamed[flow])}")
    if any(problems.values()):
        raise typer.Exit(BAD_INPUT)


def _unnamed_models_note(steps: list[str]) -> str:
    if not steps:
        return ""
    named = f"{steps[0]} and {len(steps) - 1:,} more" if len(steps) > 1 else steps[0]
    return f", but no model is named for {named}: config: {{model: …}}, or run --model NAME"


def _check_file(flow: str) -> tuple[tuple[Problem, ...], list[str]]:
    """Return the problems of a file, and its steps without a model."""
    from offbook.errors import WorkflowError
    from offbook.workflow.file.load import load_workflow
    from offbook.workflow.file.tree import steps_without_model

    try:
        return (), steps_without_model(load_workflow(flow))
    except WorkflowError as error:
        return error.problems, []


SUFFIXES: dict[str, Literal["text", "mermaid", "svg"]] = {
    ".mermaid": "mermaid",
    ".mmd": "mermaid",
    ".svg": "svg",
    **dict.fromkeys(("", ".md", ".txt"), "text"),
}


def graph(
    flow: Flow,
    format: Annotated[
        Literal["text", "mermaid", "svg"] | None,
        typer.Option("--format", "-f", help="The format; by default from the suffix of --output, else text."),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="The file to write.")] = None,
) -> None:
    """Draw a workflow as text, Mermaid or SVG.

    Nothing is run.

    [bold]Examples[/bold]

      offbook graph flow.yaml

      offbook graph flow.yaml --output flow.svg
    """
    from offbook.cli.output.console import echo
    from offbook.errors import InputError
    from offbook.files import write_output
    from offbook.workflow import draw, load_workflow

    picture = draw(load_workflow(flow), format or _format_of(output))
    if output is None:
        echo(picture, nl=False)
        return
    try:
        write_output(output, picture.encode())
    except OSError as error:
        raise InputError(error.strerror or str(error), source=output) from None


def _format_of(output: str | None) -> Literal["text", "mermaid", "svg"]:
    """Return the format of a file by its suffix.

    Raises:
        InputError: the suffix is unknown.
    """
    from pathlib import Path

    from offbook.errors import InputError

    suffix = "" if output is None else Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        hint = "name it .svg, .mmd or .txt, or choose a --format; a browser shows SVG"
        raise InputError(f"no picture can be written as {suffix}", source=str(output), hint=hint)
    return SUFFIXES[suffix]


def schema(
    kind: Annotated[Literal["workflow"], typer.Argument(help="The kind of file.", show_default=False)],
) -> None:
    """Print the JSON schema of a kind of file.

    Editors use it to complete and check the file.

    [bold]Examples[/bold]

      offbook schema workflow > workflow.schema.json
    """
    import orjson

    from offbook.cli.output.console import echo_json
    from offbook.workflow import workflow_json_schema

    echo_json(orjson.dumps(workflow_json_schema(), option=orjson.OPT_INDENT_2))
