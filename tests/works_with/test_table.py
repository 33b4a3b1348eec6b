"""The page of programs that were tried: what failed stands out, and the rest of the page stays."""

from tests.works_with.catalog import PROGRAMS
from tests.works_with.table import cell, with_table


def test_a_failure_stands_out_with_its_reason():
    assert cell("yes") == "yes"
    assert cell("9 recovered, 1 hung") == "9 recovered, 1 hung"
    assert cell("asked `2026` | 2027") == "**no**: `asked 2026   2027`"


def test_a_new_table_replaces_the_old_one_alone():
    page = "before\n<!-- it: written by make works-with -->\n\n| old |\n\n<!-- end of it -->\nafter\n"
    assert with_table(page, "it", ["| new |"]) == page.replace("old", "new")


def test_each_program_that_is_tried_names_its_version():
    assert all(each.version[0].isdigit() for each in PROGRAMS)
