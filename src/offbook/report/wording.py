"""How reports put things."""

from __future__ import annotations

from offbook.scenarios.result import SuiteResult
from offbook.scenarios.statistics import Interval
from offbook.wording import counted, dollars, printable


def fit_for_log(text: str) -> str:
    """The text without what a terminal, or GitHub's log, could take for a command; lines stay."""
    return printable(text).replace("##[", "## [")


def on_one_line(text: str, limit: int) -> str:
    """The text on one line, printable, and cut to so many characters."""
    line = " ".join(fit_for_log(text[: 4 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def cut_lines(text: str, *, lines: int, columns: int) -> list[str]:
    """The lines of the text, printable, as far as they are not too many, each cut to so many characters."""
    kept = text.split("\n", lines)
    left = kept.pop().count("\n") + 1 if len(kept) > lines else 0
    shown = [fit_for_log(line[:columns] + "…" if len(line) > columns else line) for line in kept]
    return [*shown, f"… {counted(left, 'more line')}"] if left else shown


def rate_and_interval(rate: float, interval: Interval) -> str:
    """`67 % (30–90 %)`: the pass rate, and where it truly lies with 95 % confidence."""
    return f"{rate:.0%} ({interval.low * 100:.0f}–{interval.high:.0%})".replace("%", " %")


def totals(result: SuiteResult) -> str:
    """How many scenarios and conversations passed, and what the run took."""
    scenarios, conversations = result.scenarios, [each for one in result.scenarios for each in one.conversations]
    parts = [
        f"{sum(each.passed for each in scenarios):,} of {counted(len(scenarios), 'scenario')} passed",
        f"{sum(each.passed for each in conversations):,} of {counted(len(conversations), 'conversation')}",
        *([counted(result.tokens, "token")] if result.tokens else []),
        *([f"{dollars(result.cost_usd)} $"] if result.cost_usd else []),
        f"{result.latency_s:.2f} s",
    ]
    return ", ".join(parts)
