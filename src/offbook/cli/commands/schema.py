"""offbook schema: prints the JSON schema of a kind of file."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def schema(
    kind: Annotated[Literal["workflow"], typer.Argument(help="The kind of file.", show_default=False)],
) -> None:
    """Print the JSON schema of a kind of file.

    Editors use it to complete and check the file.

    [bold]Examples[/bold]

      offbook schema workflow > workflow.schema.json
    """
    import orjson

    from offbook.workflow import workflow_json_schema

    typer.echo(orjson.dumps(workflow_json_schema(), option=orjson.OPT_INDENT_2))
