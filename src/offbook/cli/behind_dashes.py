"""Commands that take a program of the user behind `--`, as it is."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

BEHIND = "offbook.behind_dashes"


class TakesProgram(TyperCommand):
    """Sets what stands behind the first `--` apart, for `behind_dashes`, so that it is not taken for arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[BEHIND] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)


def behind_dashes(ctx: typer.Context) -> list[str] | None:
    """What stands behind `--`; None if there is none."""
    found: list[str] | None = ctx.meta.get(BEHIND)
    return found
