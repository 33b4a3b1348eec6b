"""An exploration as Markdown."""

from __future__ import annotations

import html

from offbook.explore.comparison import Comparison
from offbook.report.exploration.account import Account
from offbook.report.exploration.findings import Finding, findings_of
from offbook.report.exploration.sign import SIGNS
from offbook.report.exploration.totals import change_told, comparison_totals, totals
from offbook.report.markdown import escaped
from offbook.report.wording import cut_lines, on_one_line
from offbook.wording import counted

MAX_FINDINGS = 50
MAX_CHANGES = 50
MAX_EVIDENCE_LINES = 20
MAX_COLUMNS = 240


def exploration_markdown(account: Account) -> str:
    """What became of how many cases, the findings, and what differs from before."""
    exploration = account.exploration
    cut_off = "" if account.is_complete else "**Cut off: this is what had ended by then.** "
    rows = [
        f"| {escaped(SIGNS[verdict].letter)} | {verdict} | {count:,} | {SIGNS[verdict].meaning} |\n"
        for verdict, count in exploration.tally.items()
    ]
    table = f"\n| | verdict | cases | |\n| --- | --- | --- | --- |\n{''.join(rows)}" if rows else ""
    head = f"\n## Exploration of {escaped(exploration.subject)}\n\n{cut_off}{totals(exploration)}\n"
    return f"{head}{table}{_findings(account)}{_comparison(account.comparison)}"


def _findings(account: Account) -> str:
    findings = findings_of(account.exploration)
    if not findings:
        return ""
    left = len(findings) - MAX_FINDINGS
    more = f"\n… {counted(left, 'more finding')}\n" if left > 0 else ""
    told = "".join(_finding(each, account) for each in findings[:MAX_FINDINGS])
    return f"\n### Findings\n{told}{more}"


def _finding(finding: Finding, account: Account) -> str:
    """A finding, folded: what it rests on, and how it is seen again."""
    cases = "" if len(finding.explored) == 1 else f" and {counted(len(finding.explored) - 1, 'more case')}"
    title = f"{finding.verdict}: {on_one_line(str(finding.first), MAX_COLUMNS)}{cases}"
    evidence = cut_lines("\n".join(finding.evidence), lines=MAX_EVIDENCE_LINES, columns=MAX_COLUMNS)
    text = "\n".join([*evidence, "", on_one_line(account.reproduce(finding.first), 4 * MAX_COLUMNS)])
    sign = SIGNS[finding.verdict].letter
    summary = html.escape(f"{sign} {title}")
    return f"\n<details><summary>{summary}</summary>\n\n<pre>\n{html.escape(text)}\n</pre>\n\n</details>\n"


def _comparison(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    changes = [*comparison.worse, *(each for each in comparison.changes if not each.is_worse)]
    rows = [
        f"| {'worse' if each.is_worse else ''} | {escaped(each.case)} | {change_told(each)} |\n"
        for each in changes[:MAX_CHANGES]
    ]
    left = len(changes) - MAX_CHANGES
    more = f"\n… {counted(left, 'more change')}\n" if left > 0 else ""
    table = f"\n| | case | verdict |\n| --- | --- | --- |\n{''.join(rows)}" if rows else ""
    return f"\n### Compared with before\n\n{comparison_totals(comparison)}\n{table}{more}"
