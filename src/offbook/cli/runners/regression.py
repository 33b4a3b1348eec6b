"""Replays a regression file for a command: prints whether the finding is still there."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import msgspec
import typer

from offbook.cli.exit_codes import FAILED, FINE
from offbook.cli.output.console import print_message
from offbook.explore.runner import CaseResult
from offbook.subjects.regression import Regression, load_regression, reproduce


def replay_regression(path: str, *, is_json: bool, is_quiet: bool) -> int:
    """Run the regression in a file, print its verdict, and return the exit code: 1 if it is still a finding.

    Raises:
        InputError: the file, or something that the regression needs, is missing or wrong.
    """
    regression = load_regression(path)
    with redirect_stdout(io.StringIO()):
        explored = reproduce(path)
    if is_json:
        typer.echo(_regression_document(regression, explored))
    elif explored.is_finding or not is_quiet:
        _print_regression(regression, explored)
    return FAILED if explored.is_finding else FINE


def _print_regression(regression: Regression, explored: CaseResult) -> None:
    print_message("", str(regression))
    style = "bold red" if explored.is_finding else "green"
    is_same = explored.verdict == regression.verdict
    was = "" if is_same else f" (it was: {regression.verdict})"
    label = ("still " if is_same else "now ") if explored.is_finding else "fixed: "
    print_message(f"{label}{explored.verdict}{was}: ", "\n".join(explored.assessment.evidence), style=style)


def _regression_document(regression: Regression, explored: CaseResult) -> bytes:
    told = {
        "case": str(regression),
        "before": regression.verdict,
        "verdict": explored.verdict,
        "is_finding": explored.is_finding,
        "evidence": explored.assessment.evidence,
    }
    return msgspec.json.encode(told)
