"""Explorations as Markdown."""

import re

from msgspec.structs import replace

from offbook.report.exploration.account import Manner
from offbook.report.exploration.exploration_markdown import exploration_markdown
from tests.report.exploration import explorations


def markdown(exploration, before=None, **settings):
    return exploration_markdown(Manner(explorations.reproduce, before).account(exploration, **settings))


def test_a_table_tells_how_many_cases_have_which_verdict_the_worst_first():
    assert markdown(explorations.naive()).startswith(
        "\n## Exploration of refund\\_agent\n\n"
        "6 cases, 3 findings: 1 repeated side effect, 2 crashed, 1 diverged, 1 recovered, 1 not struck\n\n"
        "| | verdict | cases | |\n| --- | --- | --- | --- |\n"
        "| 2 | repeated side effect | 1 | a tool did twice what it should do once |\n"
    )


def test_findings_are_folded_with_their_evidence_and_the_command():
    told = markdown(explorations.naive())
    assert (
        "<details><summary>! crashed: step=agent call=1: connection_reset and 1 more case</summary>\n\n"
        "<pre>\nRuntimeError: gave up\n\noffbook explore refund.py --only 0003\n</pre>\n\n</details>\n"
    ) in told
    assert "### Findings" not in markdown(explorations.sound())


def test_what_differs_from_before_is_a_table_the_worse_first():
    told = markdown(explorations.naive(), before=explorations.sound())
    table = told.partition("### Compared with before\n\n")[2].splitlines()
    assert table[0] == "compared with before: 3 worse, 2 other changes, 1 the same"
    assert table[4] == "| worse | step\\=agent call\\=1\\: connection\\_reset | recovered → crashed |"
    assert table[-1].startswith("|  | ")
    same = markdown(explorations.sound(), before=explorations.sound())
    assert same.endswith("compared with before: 0 worse, 0 other changes, 6 the same\n")


def test_what_was_cut_off_says_so_and_may_be_empty():
    told = markdown(replace(explorations.naive(), explored=()), is_complete=False)
    assert (
        told
        == "\n## Exploration of refund\\_agent\n\n**Cut off: this is what had ended by then.** 0 cases, 0 findings\n"
    )


def test_much_of_it_is_cut_so_that_it_can_be_shown():
    exploration = explorations.large()
    bad = tuple(
        explorations.judged(each.case, each.run, "wrong", f"{place}\n" + "x" * 10_000)
        for place, each in enumerate(exploration.explored)
    )
    told = markdown(replace(exploration, explored=bad), before=exploration)
    assert f"… {len(bad) - 50} more findings\n" in told
    assert f"… {len(bad) - 50} more changes\n" in told
    assert len(told.encode()) < 500_000


def test_hostile_text_means_nothing():
    told = markdown(explorations.hostile(), before=explorations.sound())
    assert not re.search(r"(?<!\\)<(script|img|!--)", told)
    assert "\x1b" not in told
