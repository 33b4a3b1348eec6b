"""Runs as a page, without a browser."""

import json
import re

from offbook.report.scenarios.json_report import html_report
from tests.report import runs


def test_the_data_can_hold_no_tag():
    page = html_report(runs.suite(runs.hostile())).decode()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in data
    assert json.loads(data)["scenarios"][0]["name"].startswith("</script><script>alert(1)")
    assert page.count("<script") == 2


def test_the_page_is_the_same_for_the_same_result_and_asks_for_nothing():
    page = html_report(runs.two_agents())
    assert page == html_report(runs.two_agents())
    assert not re.search(rb"""(src|href)=["'](?!data:|#)|https?:|@import|url\(""", page)


def test_the_script_is_short():
    page = html_report(runs.suite()).decode()
    assert re.search(r"<script>(.*)</script>", page, re.DOTALL)[1].count("\n") < 240
