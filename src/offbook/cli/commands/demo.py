"""offbook demo: shows replay, faults and exploration offline, in seconds."""

from typing import Annotated

import typer


def demo(
    fault: Annotated[
        list[str], typer.Option("--fault", help="Explore the refund agents with this fault only. Repeatable.")
    ] = [],  # noqa: B006
) -> None:
    """Show replay, faults and exploration, offline and in seconds.

    Replays a workflow, breaks it with three faults, changes a prompt, and explores an agent that gives refunds. Writes
    report.html to the working directory, and never overwrites your files. With --fault, runs one case of the
    exploration again, and exits with 1 if it is a finding.

    [bold]Examples[/bold]

      offbook demo

      offbook demo --fault 'step=agent call=3 attempt=1: connection_reset'
    """
    from importlib.resources import as_file, files

    from offbook.cli import FAILED
    from offbook.cli.runners.demo import Demonstration
    from offbook.faults import parse_fault

    with as_file(files("offbook.cli").joinpath("demo")) as folder:
        demonstration = Demonstration(folder)
        if not fault:
            demonstration.show()
        elif not demonstration.show_again([parse_fault(line) for line in fault]):
            raise typer.Exit(FAILED)
