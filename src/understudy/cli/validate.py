"""understudy validate: whether workflow files could run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from understudy.cli.arguments import AsJson, Flows

if TYPE_CHECKING:
    from understudy.errors import Problem


def validate(flows: Flows, as_json: AsJson = False) -> None:
    """Check workflow files, and those that they include. Exits with 2 if something is wrong.

    All problems are told, each with its file, line and column. Nothing is run, and no tool is imported.

    [bold]Examples[/bold]

      understudy validate flow.yaml

      understudy validate flows/*.yaml --json
    """
    import orjson

    from understudy.cli.exit_codes import BAD_INPUT
    from understudy.wording import printable

    problems = {flow: _problems(flow) for flow in flows}
    if as_json:
        rows = [problem._asdict() for found in problems.values() for problem in found]
        typer.echo(orjson.dumps({"files": len(problems), "problems": rows}))
    else:
        for flow, found in problems.items():
            typer.echo(printable("\n".join(map(str, found)) if found else f"{flow}: ok"))
    if any(problems.values()):
        raise typer.Exit(BAD_INPUT)


def _problems(flow: str) -> tuple[Problem, ...]:
    from understudy.errors import WorkflowError
    from understudy.workflow.load import load_workflow

    try:
        load_workflow(flow)
    except WorkflowError as error:
        return error.problems
    return ()
