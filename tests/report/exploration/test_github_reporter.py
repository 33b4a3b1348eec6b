"""Explorations as GitHub shows them."""

import io

import pytest

from offbook.errors import InputError
from offbook.report.exploration import report_exploration
from offbook.report.exploration.account import Manner
from offbook.report.exploration.github_reporter import ExplorationGithubReporter
from tests.report.exploration import explorations


def reported(exploration, summary=None):
    out = io.StringIO()
    report_exploration(exploration, ExplorationGithubReporter(Manner(explorations.reproduce), summary, out=out))
    return out.getvalue().splitlines()


def test_each_finding_is_an_annotation():
    refunds, crashes = reported(explorations.naive())
    assert refunds == (
        "::error title=refund_agent%3A repeated side effect in 1 case::tool=refund call=1: tool_lost%0A"
        "refund ran 2 times, usually 1 time%0Aoffbook explore refund.py --only 0006"
    )
    assert crashes.startswith(
        "::error title=refund_agent%3A crashed in 2 cases::step=agent call=1: connection_reset%0A"
    )


def test_the_summary_is_added_to_what_others_have_written(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    reported(explorations.naive(), path)
    assert path.read_text().startswith("before\n\n## Exploration of refund\\_agent\n")


def test_a_summary_that_cannot_be_written_is_found_when_it_begins(tmp_path):
    with pytest.raises(InputError, match="Is a directory"):
        ExplorationGithubReporter(Manner(str), tmp_path).begin(explorations.sound(), 1)


def test_hostile_text_is_one_command_each_and_no_other():
    lines = reported(explorations.hostile())
    assert len(lines) == 2
    assert all(line.startswith("::error title=") for line in lines)
    assert not any("\x1b" in line for line in lines)
