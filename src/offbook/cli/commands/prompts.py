"""offbook prompts: shows the prompts of simulated users and judges."""

from __future__ import annotations

from typing import Annotated

import typer


def prompts(
    name: Annotated[str | None, typer.Argument(help="The name of a prompt, or the end of it.")] = None,
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
        raise InputError(f"there is no prompt {name!r}", source="prompts", hint=hint)
    return chosen


def _replacement(step: str) -> str:
    """Return the setting that replaces a prompt."""
    from offbook.scenarios.judge import METRICS

    if step == "user":
        return 'replace it with a file: [user] template = "user.txt"'
    if step.rpartition(".")[2] in METRICS:
        return 'replace it with your own metric: [judge] metrics = ["my_metrics:NAME"]'
    return 'used once a run, if something failed: [judge] group_errors = "model"'
