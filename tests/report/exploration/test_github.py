"""Explorations as GitHub shows them."""

import io
import re

import pytest
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.report.exploration import report_exploration
from offbook.report.exploration.github import ExplorationGithubReporter, exploration_markdown
from offbook.report.exploration.report_input import ReportOptions
from tests.report.exploration import explorations


def reported(exploration, summary=None):
    out = io.StringIO()
    report_exploration(exploration, ExplorationGithubReporter(ReportOptions(explorations.reproduce), summary, out=out))
    return out.getvalue().splitlines()


def test_each_finding_is_an_annotation():
    refunds, crashes = reported(explorations.naive())
    assert refunds == (
        "::error title=refund_agent%3A repeated side effect in 1 case::"
        "refund ran 2 times, usually once%0Atool=refund call=1: tool_lost%0Aoffbook explore refund.py --only 0006"
    )
    assert crashes.startswith("::error title=refund_agent%3A crashed in 2 cases::RuntimeError: gave up%0A")


def test_the_summary_is_added_to_what_others_have_written(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    reported(explorations.naive(), path)
    assert path.read_text().startswith("before\n\n## Exploration of refund\\_agent\n")


def test_a_summary_that_cannot_be_written_is_found_when_it_begins(tmp_path):
    with pytest.raises(InputError, match="Is a directory"):
        ExplorationGithubReporter(ReportOptions(str), tmp_path).begin(explorations.sound(), 1)


def test_hostile_text_is_one_command_each_and_no_other():
    lines = reported(explorations.hostile())
    assert len(lines) == 2
    assert all(line.startswith("::error title=") for line in lines)
    assert not any("\x1b" in line for line in lines)


def markdown(exploration, before=None, **settings):
    return exploration_markdown(ReportOptions(explorations.reproduce, before).report_input(exploration, **settings))


def test_a_table_reports_how_many_cases_have_which_verdict_the_worst_first():
    assert markdown(explorations.naive()).startswith(
        "\n## Exploration of refund\\_agent\n\n"
        "6 cases, 3 findings: 1 repeated side effect, 2 crashed, 1 undecided, 1 recovered, 1 not reached\n\n"
        "|  | verdict | cases |  |\n| --- | --- | --- | --- |\n"
        "| 2 | repeated side effect | 1 | it changed something once more than it should |\n"
    )


def test_findings_are_folded_with_their_evidence_and_the_command():
    summary = markdown(explorations.naive())
    assert (
        "<details><summary>! crashed: RuntimeError: gave up</summary>\n\n"
        "<pre>\nstep=agent call=1: connection_reset and 1 more case\n\n"
        "offbook explore refund.py --only 0003\n</pre>\n\n</details>\n"
    ) in summary
    assert "### Findings" not in markdown(explorations.sound())


def test_what_differs_from_before_is_a_table_the_worse_first():
    summary = markdown(explorations.naive(), before=explorations.sound())
    table = summary.partition("### Compared with before\n\n")[2].splitlines()
    assert table[0] == "compared with before: 4 worse, 1 other change, 1 the same"
    assert table[4] == "| worse | step\\=agent call\\=1\\: connection\\_reset | recovered → crashed |"
    assert table[-1].startswith("|  | ")
    same = markdown(explorations.sound(), before=explorations.sound())
    assert same.endswith("compared with before: 0 worse, 0 other changes, 6 the same\n")


def test_what_was_cut_off_says_so_and_may_be_empty():
    summary = markdown(replace(explorations.naive(), results=()), is_complete=False)
    assert (
        summary
        == "\n## Exploration of refund\\_agent\n\n**Interrupted: this report is partial.** 0 cases, 0 findings\n"
    )


def test_much_of_it_is_cut_so_that_it_can_be_shown():
    exploration = explorations.large()
    bad = tuple(
        explorations.judged(each.case, each.run, "wrong", f"{place}\n" + "x" * 10_000)
        for place, each in enumerate(exploration.results)
    )
    summary = markdown(replace(exploration, results=bad), before=exploration)
    assert f"… {len(bad) - 50:,} more findings\n" in summary
    assert f"… {len(bad) - 50:,} more changes\n" in summary
    assert len(summary.encode()) < 500_000


def test_hostile_text_means_nothing():
    summary = markdown(explorations.hostile(), before=explorations.sound())
    assert not re.search(r"(?<!\\)<(script|img|!--)", summary)
    assert "\x1b" not in summary
