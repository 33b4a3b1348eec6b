"""Runs and explorations as GitHub shows them."""

import io
import re

import pytest
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.report import report
from offbook.report.exploration import report_exploration
from offbook.report.exploration.report_input import ReportOptions
from offbook.report.github import ExplorationGithubReporter, GithubReporter, exploration_markdown
from offbook.scenarios.result import Failure
from tests.report import runs
from tests.report.exploration import explorations


def commands(*scenarios, **fields):
    out = io.StringIO()
    report(runs.suite(*scenarios, **fields), GithubReporter(out=out))
    return out.getvalue().splitlines()


def summary_of(result, path):
    report(result, GithubReporter(path, out=io.StringIO()))
    return path.read_text()


def unescaped(text):
    for code, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, letter)
    return text


def test_a_scenario_that_failed_is_annotated_where_it_was_written():
    (line,) = commands(*runs.two_agents().scenarios)
    message = "conversation 2: assertion: a call is missing%0A- find_order(id=7)%0A+ refund(id=7)"
    assert line.startswith(f"::error file=tests/refunds.py,line=12,title=refunds an order (small)::{message}%0A")


def test_names_and_reasons_are_escaped_and_come_back():
    failed = runs.scenario("50 %, a: b", "", source="C:\\x,y.py:7", failures=(Failure("assertion", "a%0Ab"),))
    (line,) = commands(failed)
    properties, message = re.fullmatch(r"::error (.*?)::(.*)", line).groups()
    assert [unescaped(each) for each in properties.split(",")] == ["file=C:\\x,y.py", "line=7", "title=50 %, a: b"]
    assert unescaped(message) == "assertion: a%0Ab"


def test_a_scenario_without_a_place_has_none():
    assert commands(runs.scenario(source="", passes=0))[0].startswith("::error title=")


def test_hostile_text_is_one_command_and_no_other():
    (line,) = commands(runs.hostile())
    assert line.startswith("::error ")
    assert len(line) < 10_000


def test_a_stream_that_does_not_know_a_letter_still_gets_the_command():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    report(runs.suite(runs.scenario("größer", passes=0)), GithubReporter(out=out))
    assert b"title=gr??er" in raw.getvalue()


def test_the_summary_has_a_table_the_totals_and_what_failed(tmp_path):
    summary = summary_of(runs.two_agents(), tmp_path / "s.md")
    assert (
        "| ❌ | refunds an order | small | 1/3 | 33 % (6–79 %) | 0.0300 |\n| ✅ | refunds an order | large |" in summary
    )
    assert "\n3 of 4 scenarios passed, 6 of 8 conversations" in summary
    assert "| says hello | ✅ 1/1 | ✅ 1/1 |" in summary
    assert "Mocks never called in says hello: wave" in summary
    assert "<pre>\nconversation 2: assertion: a call is missing\n  - find_order(id=7)\n" in summary


def test_one_agent_is_compared_with_none(tmp_path):
    summary = summary_of(runs.suite(runs.scenario(), runs.scenario("other", "large")), tmp_path / "s.md")
    assert "### Agents" not in summary


def test_an_agent_that_did_not_do_a_scenario_has_an_empty_cell(tmp_path):
    result = runs.suite(runs.scenario(), runs.scenario(agent="large"), runs.scenario("other"))
    assert "| other | ✅ 1/1 |  |" in summary_of(result, tmp_path / "s.md")


def test_the_summary_is_added_to_what_is_there(tmp_path):
    path = tmp_path / "s.md"
    path.write_text("before\n")
    assert summary_of(runs.two_agents(), path).startswith("before\n\n## Scenarios\n")


def test_a_run_that_is_killed_leaves_the_table_so_far(tmp_path):
    reporter = GithubReporter(tmp_path / "s.md")
    reporter.begin(2)
    reporter.on_scenario(runs.scenario())
    assert (tmp_path / "s.md").read_text().endswith("| ✅ | refunds an order | small | 1/1 |  | 0.0100 |\n")


def test_a_run_that_was_cut_off_says_so(tmp_path):
    assert "ended early" in summary_of(runs.suite(runs.scenario(), is_complete=False), tmp_path / "s.md")


def test_hostile_text_means_nothing_in_the_summary(tmp_path):
    summary = summary_of(runs.suite(runs.hostile()), tmp_path / "s.md")
    assert "<script" not in summary.replace("\\<script", "")
    assert "<img" not in summary.replace("\\<img", "")
    rows = [line for line in summary.splitlines() if line.startswith("| ❌")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 7


def test_the_summary_never_outgrows_what_github_takes(tmp_path):
    reason = "x" * 200
    detail = "\n".join(["y" * 230] * 60)
    many = [
        runs.scenario(str(index), conversations=(), failures=(Failure("assertion", reason, detail),) * 10)
        for index in range(10)
    ]
    summary = summary_of(runs.suite(*many), tmp_path / "s.md")
    assert 500_000 < len(summary.encode()) <= 1_000_000
    assert "0 of 10 scenarios passed" in summary
    assert summary.rstrip().endswith("</details>")


def test_a_summary_that_cannot_be_written_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="Is a directory"):
        GithubReporter(tmp_path).begin(1)


def test_the_summary_lists_the_causes(tmp_path):
    summary = summary_of(runs.grouped(failures=1), tmp_path / "s.md")
    assert "\n### Findings by cause\n\n- **high** a call is missing (1 conversation\\: c0)\n" in summary


def test_a_run_without_groups_has_no_causes_in_its_summary(tmp_path):
    assert "by cause" not in summary_of(runs.two_agents(), tmp_path / "s.md")


def test_hostile_causes_mean_nothing_and_many_are_cut(tmp_path):
    summary = summary_of(runs.grouped(*[runs.hostile_group()] * 52), tmp_path / "s.md")
    assert "<script" not in summary.replace("\\<script", "")
    assert summary.count("- **critical**") == 50
    assert "\n- … 2 more causes\n" in summary


def reported(exploration, summary=None):
    out = io.StringIO()
    report_exploration(exploration, ExplorationGithubReporter(ReportOptions(explorations.reproduce), summary, out=out))
    return out.getvalue().splitlines()


def test_each_finding_is_an_annotation():
    refunds, crashes = reported(explorations.naive())
    assert refunds == (
        "::error title=refund_agent%3A repeated effect in 1 case::"
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
        "6 cases, 3 findings: 1 repeated effect, 2 crashed, 1 undecided, 1 recovered, 1 not reached\n\n"
        "|  | verdict | cases |  |\n| --- | --- | --- | --- |\n"
        "| 2× | repeated effect | 1 | it changed something once more than it should |\n"
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
    assert table[0] == "compared with before: 3 worse, 2 other changes, 1 the same"
    assert table[4] == "| worse | step\\=agent call\\=1\\: connection\\_reset | recovered → crashed |"
    assert table[-1].startswith("|  | ")
    same = markdown(explorations.sound(), before=explorations.sound())
    assert same.endswith("compared with before: 0 worse, 0 other changes, 6 the same\n")


def test_what_was_cut_off_says_so_and_may_be_empty():
    summary = markdown(replace(explorations.naive(), results=()), is_complete=False)
    assert (
        summary == "\n## Exploration of refund\\_agent\n\n"
        "**The exploration ended early: this report is partial.** 0 cases, 0 findings\n"
    )


def test_much_of_it_is_cut_so_that_it_can_be_shown():
    exploration = explorations.large()
    bad = tuple(
        explorations.judged(each.case, each.run, "undetected", f"{place}\n" + "x" * 10_000)
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


def test_the_summary_reports_what_a_budget_left_out():
    summary = markdown(explorations.naive(left=3))
    left = "left out\\: 3 of 9 single faults\n\nby fault\\: 3 of timeout\n\nnot tried at all\\, "
    assert f"; the budget left out 3 cases\n\n{left}" in summary
