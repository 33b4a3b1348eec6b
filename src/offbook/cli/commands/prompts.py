"""offbook prompts: shows the prompts of simulated users and judges."""

from __future__ import annotations

from typing import Annotated

import typer


def prompts(
    name: Annotated[str | None, typer.Argument(help="One of them, by its name or the end of it.")] = None,
) -> None:
    """Show the prompts of simulated users and judges.

    Each is shown with the setting that replaces it.

    [bold]Examples[/bold]

      offbook prompts

      offbook prompts judge.helpfulness
    """
    from offbook.cli.output.console import print_message
    from offbook.scenarios.judge import prompts as all_prompts

    known = all_prompts()
    for step in _choose(name, list(known)):
        print_message(f"{step}: ", _replacement(step), style="bold")
        typer.echo(f"\n{known[step].rstrip()}\n")


def _choose(name: str | None, steps: list[str]) -> list[str]:
    from offbook.errors import InputError
    from offbook.text import did_you_mean

    chosen = [step for step in steps if name in (None, step, step.rpartition(".")[2])]
    if not chosen:
        hint = did_you_mean(str(name), steps, kind="prompts")
        raise InputError(f"no prompt is called {name!r}", source="prompts", hint=hint)
    return chosen


def _replacement(step: str) -> str:
    """Where a prompt is replaced: the user's by a file, a judge's by a metric of one's own."""
    from offbook.scenarios.judge import METRICS

    if step == "user":
        return 'replace it by a file: [user] template = "user.txt"'
    if step.rpartition(".")[2] in METRICS:
        return 'replace it by a metric of your own: [judge] metrics = ["my_metrics:NAME"]'
    return 'asked once a run, if something failed: [judge] group_errors = "model"'
