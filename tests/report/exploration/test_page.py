"""Explorations as a page, without a browser."""

import json
import re

from offbook.report.exploration.page import exploration_page
from offbook.report.exploration.report_input import ReportOptions
from tests.report.exploration import explorations


def page_of(exploration):
    return exploration_page(ReportOptions(explorations.reproduce).report_input(exploration))


def test_the_data_can_hold_no_tag():
    page = page_of(explorations.hostile()).decode()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in data
    assert json.loads(data)["subject"] == explorations.HOSTILE
    assert page.count("<script") == 2


def test_the_page_is_the_same_for_equal_explorations_and_asks_for_nothing():
    page = page_of(explorations.with_pair())
    assert page == page_of(explorations.with_pair())
    assert not re.search(rb"""(src|href)=["'](?!data:|#)|https?:|@import|url\(""", page)


def test_steps_that_runs_have_in_common_are_in_the_page_once():
    exploration = explorations.large()
    assert len(page_of(exploration)) < 60 * len(exploration.results) * 10
