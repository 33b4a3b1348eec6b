"""offbook validate: checks workflow files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from offbook.cli.options import AsJson, Flows

if TYPE_CHECKING:
    from offbook.errors import Problem


def validate(flows: Flows, as_json: AsJson = False) -> None:
    """Check workflow files and the files that they include.

    Prints every problem with its file, line and column, and exits with 2 if there is one. Nothing is run, and no tool
    is imported. Steps without a model are no problem, but are listed: another file, or --model, must name the model.

    [bold]Examples[/bold]

      offbook validate flow.yaml

      offbook validate flows/*.yaml --json
    """
    import orjson

    from offbook.cli.exit_codes import BAD_INPUT
    from offbook.text import printable

    problems, unnamed = dict[str, "tuple[Problem, ...]"](), dict[str, list[str]]()
    for flow in flows:
        problems[flow], unnamed[flow] = _check_file(flow)
    if as_json:
        rows = [problem._asdict() for found in problems.values() for problem in found]
        without = {flow: steps for flow, steps in unnamed.items() if steps}
        typer.echo(orjson.dumps({"files": len(problems), "problems": rows, "without_model": without}))
    else:
        for flow, found in problems.items():
            typer.echo(
                printable("\n".join(map(str, found)) if found else f"{flow}: ok{_unnamed_models_note(unnamed[flow])}")
            )
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
