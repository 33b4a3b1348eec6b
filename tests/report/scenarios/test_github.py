"""Runs as GitHub shows them."""

import io
import re

import pytest

from offbook.errors import InputError
from offbook.report import report
from offbook.report.scenarios.github import GithubReporter
from offbook.scenarios.result import Failure
from tests.report import runs


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
    assert "interrupted" in summary_of(runs.suite(runs.scenario(), is_complete=False), tmp_path / "s.md")


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
