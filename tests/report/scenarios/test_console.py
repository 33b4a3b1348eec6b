"""Runs on the console."""

import io

from rich.console import Console

from offbook.report import report
from offbook.report.scenarios.console import ConsoleReporter
from offbook.scenarios.result import Failure
from tests.report import runs


def shown(result, **settings):
    out = settings.pop("file", io.StringIO())
    report(result, ConsoleReporter(Console(file=out, **({"width": 100} | settings))))
    return out.getvalue() if isinstance(out, io.StringIO) else out.buffer.getvalue().decode(out.encoding)


def test_each_scenario_has_a_line_and_what_failed_is_below_it():
    lines = shown(runs.two_agents()).splitlines()
    assert lines[:5] == [
        "✗ refunds an order  small  1/3  33 % (6–79 %)  300 tokens  0.0300 $  1.50 s",
        "  │ helpfulness 5.00 ± 0.82",
        "  │ 2 conversations (2, 3): assertion: a call is missing",
        "  │   - find_order(id=7)",
        "  │   + refund(id=7)",
    ]
    assert "✓ says hello  small  1/1  100 tokens  0.0100 $  0.50 s" in lines


def test_the_end_reports_totals_mocks_never_called_and_agents_beside_each_other():
    lines = [line.rstrip() for line in shown(runs.two_agents()).splitlines()]
    assert lines[-6:] == [
        "mocks never called in says hello (large): wave",
        "scenario          small                 large",
        "refunds an order  ✗ 1/3  33 % (6–79 %)  ✓ 3/3  100 % (44–100 %)",
        "says hello        ✓ 1/1                 ✓ 1/1",
        "",
        "3 of 4 scenarios passed, 6 of 8 conversations, 800 tokens, 0.0800 $, 1.50 s",
    ]


def test_one_agent_needs_no_table_and_what_cost_nothing_reports_no_cost():
    output = shown(runs.suite(runs.scenario("free", conversations=())))
    assert output == "✓ free  small  0/0\n\n1 of 1 scenario passed, 0 of 0 conversations, 1.50 s\n"


def test_an_agent_that_did_not_do_a_scenario_has_an_empty_cell():
    output = shown(runs.suite(runs.scenario(), runs.scenario(agent="large"), runs.scenario("other")))
    assert "\nother             ✓ 1/1       " in output


def test_a_run_that_was_cut_off_says_so():
    assert "\nended early: this report is partial\n" in shown(runs.suite(runs.scenario(), is_complete=False))


def test_long_details_and_many_failures_are_cut():
    detail = "\n".join(["d" * 1000] * 1000)
    failures = tuple(Failure("assertion", f"{number}" + "r" * 10_000, detail) for number in range(12))
    output = shown(runs.suite(runs.scenario(conversations=(), failures=failures)))
    assert "  │   … 940 more lines\n" in output
    assert "  │ … 2 more failures\n" in output
    assert max(map(len, output.splitlines())) < 400


def test_nothing_that_was_said_can_command_a_terminal_or_a_log():
    output = shown(runs.suite(runs.hostile()))
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert not any(line.lstrip().startswith("::") for line in output.splitlines())
    assert "##[" not in output


def test_what_looks_like_markup_is_text():
    assert "[bold]x[/bold] :smile:" in shown(runs.suite(runs.scenario("[bold]x[/bold] :smile:")))


def test_a_console_without_unicode_gets_plain_marks():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    both = runs.suite(runs.scenario("größer", passes=0), runs.scenario("größer", "large"))
    output = shown(both, file=out)
    assert output.startswith("x gr??er  small  0/1")
    assert "\ngr??er    x 0/1  + 1/1" in output


def test_a_terminal_shows_how_far_the_run_is():
    out = io.StringIO()
    reporter = ConsoleReporter(Console(file=out, force_terminal=True, width=100))
    reporter.begin(3)
    assert "0 of 3 scenarios" in out.getvalue()
    reporter.on_scenario(runs.scenario(passes=0))
    reporter.on_scenario(runs.scenario(agent="large"))
    assert "2 of 3 scenarios, 1 failed" in out.getvalue()
    reporter.finish(runs.suite(runs.scenario(passes=0), runs.scenario(agent="large")))
    assert out.getvalue().endswith("1.50 s\x1b[0m\n")
    assert "\x1b[?25h" in out.getvalue()


def test_by_default_it_prints_to_standard_output(capsys):
    report(runs.two_agents(), ConsoleReporter())
    assert capsys.readouterr().out.startswith("✗ refunds an order")


def test_causes_are_below_the_totals_with_the_first_conversations_of_each():
    groups = (
        runs.ErrorGroup("a call is missing", "critical", ("c0", "c1", "c2", "c3")),
        runs.ErrorGroup("it is rude", "low", ("c" * 30,)),
    )
    assert shown(runs.grouped(*groups)).splitlines()[-4:] == [
        "",
        "findings by cause",
        "  critical  a call is missing  4 conversations: c0, c1, c2, …",
        f"  low       it is rude  1 conversation: {'c' * 23}…",
    ]


def test_a_single_failure_needs_no_causes():
    assert "by cause" not in shown(runs.grouped(failures=1))


def test_many_causes_are_cut():
    groups = [runs.ErrorGroup(f"cause {number}", "low", ("c0",)) for number in range(12)]
    output = shown(runs.grouped(*groups))
    assert "cause 9 " in output
    assert output.endswith("  … 2 more causes\n")


def test_no_cause_can_command_a_terminal_or_a_log():
    output = shown(runs.grouped(runs.hostile_group()))
    assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert "##[" not in output
