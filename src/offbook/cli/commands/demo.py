"""offbook demo: shows replay, faults and exploration offline, in seconds."""

from typing import Annotated

import typer


def demo(
    fault: Annotated[
        list[str], typer.Option("--fault", help="Break the refund agents in this way alone. May be repeated.")
    ] = [],  # noqa: B006
) -> None:
    """Replay a workflow, break it three times, change a prompt, and explore an agent that refunds: offline, in seconds.

    Leaves report.html in the working directory, over no file of yours. With --fault it runs one case of the
    exploration again, and exits with 1 if that is a finding.

    [bold]Examples[/bold]

      offbook demo

      offbook demo --fault 'step=agent call=3 attempt=1: connection_reset'
    """
    from importlib.resources import as_file, files

    from offbook.cli.exit_codes import FAILED
    from offbook.cli.runners.demo import Demonstration
    from offbook.faults import parse_fault

    with as_file(files("offbook").joinpath("templates", "demo")) as folder:
        demonstration = Demonstration(folder)
        if not fault:
            demonstration.show()
        elif not demonstration.show_again([parse_fault(line) for line in fault]):
            raise typer.Exit(FAILED)
