"""Runs as a page, in a browser."""

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from offbook.report.scenarios.json_report import html_report
from offbook.scenarios.result import SuiteOrigin
from tests.report import browser, runs

PHONE = {"width": 375, "height": 812}
FOLDED = "() => document.querySelectorAll('details:not([open])').length"


@pytest.fixture
def look_at(open_page):
    """Opens the page of a run."""
    return lambda result, **settings: open_page(html_report(result), **settings)


def shown_names(page):
    return [each.inner_text() for each in page.locator(".scenario:visible > summary > bdi:first-of-type").all()]


def open_all(page):
    """Open everything that can be opened, by its summary."""
    while (closed := page.locator("details:not([open]) > summary:visible")).count():
        closed.first.click()
        page.evaluate(browser.TOGGLED)


def test_the_overview_has_a_row_for_each_scenario_and_a_column_for_each_agent(look_at):
    page = look_at(runs.two_agents())
    rows = [row.split("\t") for row in page.locator("#overview").inner_text().splitlines()]
    assert rows == [
        ["Scenario", "small", "large"],
        ["refunds an order", "✗ failed 1/3, 33 % (6 % to 79 %)", "✓ passed 3/3, 100 % (44 % to 100 %)"],
        ["says hello", "✓ passed 1/1", "✓ passed 1/1"],
    ]
    assert "3 of 4 scenarios passed · 6 of 8 conversations passed · 800 tokens" in page.locator("#totals").inner_text()


def test_the_page_says_what_the_run_came_from_and_what_little_it_cost(look_at):
    command = "offbook test --replay sims/"
    origin = SuiteOrigin(version="1.0", command=command, recording="sims/", recorded_at="2026-01-31T12:00:00+00:00")
    cheap = runs.conversation(cost_usd=0.000038)
    scenario = replace(runs.two_agents().scenarios[2], conversations=(cheap,))
    page = look_at(runs.suite(scenario, origin=origin))
    assert page.locator("#origin").inner_text() == f"Recording sims/ of 2026-01-31 · {command} · offbook 1.0"
    assert "100 tokens · 0.000038 $" in page.locator("#totals").inner_text()


def test_scenarios_are_filtered_by_text_status_and_agent(look_at):
    page = look_at(runs.two_agents())
    count = page.locator("#count")
    assert count.inner_text() == "4 of 4 scenarios shown"
    page.get_by_label("Text").fill("HELLO")
    assert shown_names(page) == ["says hello", "says hello"]
    assert page.locator("#overview tbody tr:visible").count() == 1
    page.get_by_label("Agent").select_option(label="large")
    assert count.inner_text() == "1 of 4 scenarios shown"
    page.get_by_label("Text").fill("")
    page.get_by_label("Agent").select_option(label="all")
    page.get_by_label("Status").select_option("failed")
    assert shown_names(page) == ["refunds an order"]
    page.get_by_label("Text").fill("nowhere")
    assert count.inner_text() == "0 of 4 scenarios shown"


def test_the_text_filter_looks_into_conversations(look_at):
    other = runs.scenario("other", conversations=(runs.conversation(said="Your parcel is lost."),))
    page = look_at(runs.suite(runs.scenario(), other))
    page.get_by_label("Text").fill("parcel is")
    assert shown_names(page) == ["other"]


def test_a_timeline_opens_by_keyboard_and_reports_the_conversation_in_order(look_at):
    page = look_at(runs.two_agents())
    page.locator(".scenario > summary").first.press("Enter")
    page.locator(".conversation.failed > summary").first.press("Enter")
    events = page.locator(".conversation.failed .timeline").first.locator("> li")
    expect(events).to_have_count(4)
    kinds = [each.get_attribute("class") for each in events.all()]
    assert kinds == ["user", "tool", "agent", "verdict"]
    assert events.nth(0).inner_text() == "user\nRefund order 7."
    tool = events.nth(1)
    tool.locator("summary").press("Space")
    expect(tool.locator("pre")).to_have_text(['{ "id": 7 }', '{ "ok": true }'])
    failed = page.locator(".conversation.failed").first
    assert failed.locator(".failure").inner_text().startswith("assertion: a call is missing")
    assert failed.inner_text().count("a call is missing") == 1


def test_a_cell_of_the_overview_leads_to_its_scenario(look_at):
    page = look_at(runs.two_agents())
    page.locator("#overview a").nth(2).press("Enter")
    target = page.locator("#scenario-2")
    expect(target).to_have_attribute("open", "")
    expect(target.locator("> summary")).to_be_focused()


def test_causes_lead_to_their_conversations(look_at):
    page = look_at(runs.grouped())
    causes = page.locator("#groups")
    assert causes.inner_text().splitlines() == [
        "Findings by cause",
        "high: a call is missing 2 conversations",
        "Tell it to look first.",
        "refunds an order 1 refunds an order 2",
    ]
    causes.locator("a").nth(1).press("Enter")
    target = page.locator("#scenario-0-1")
    expect(target).to_have_attribute("open", "")
    expect(target.locator("> summary")).to_be_focused()
    assert target.inner_text().startswith("✗ failed Conversation 2")


def test_causes_are_filtered_with_their_scenarios(look_at):
    unknown = runs.ErrorGroup("elsewhere", "low", ("nowhere",))
    page = look_at(runs.grouped(runs.ErrorGroup("a call is missing", "high", ("c0",), "is missing"), unknown))
    shown = page.locator("#groups li:visible")
    assert shown.first.inner_text().splitlines() == ["high: a call is missing 1 conversation", "refunds an order 1"]
    assert shown.count() == 2
    page.get_by_label("Status").select_option("passed")
    assert shown.all_inner_texts() == ["low: elsewhere 1 conversation"]


def test_a_page_without_groups_has_no_causes(look_at):
    assert not look_at(runs.two_agents()).locator("#groups").is_visible()


def test_every_kind_of_verdict_and_call_is_shown(look_at):
    calls = (runs.call(error="no such order", result=None), runs.call("wait", is_answered=False, result=None))
    judged = (runs.Judgement("tone", error="no answer"), runs.Judgement("harm", "leak", "It leaked.", severity="high"))
    turn = runs.TurnRecord(0, "Hi", "", calls)
    failures = (runs.Failure("threshold", "tone is 2.00, below 3.00"),)
    scenario = runs.scenario(
        conversations=(runs.conversation(turns=(turn,), judgements=judged, assertions=()),),
        failures=failures,
        never_called=("wave", "nod"),
    )
    page = look_at(runs.suite(scenario, is_complete=False))
    open_all(page)
    text = page.locator(".scenario").inner_text()
    for part in ("✗ failed\n", "no such order", "✗ not answered", "could not be judged: no answer", "severity high"):
        assert part in text
    assert "Mocks never called: wave, nod" in text
    assert "threshold: tone is 2.00, below 3.00" in text
    assert page.get_by_text("The run ended early").is_visible()


def test_a_long_text_is_shown_in_full_when_asked_for(look_at):
    long = runs.scenario(conversations=(runs.conversation(said="word " * 2000 + "end"),))
    page = look_at(runs.suite(long))
    open_all(page)
    said = page.locator("li.agent .said")
    assert len(said.text_content()) == 4000
    page.get_by_role("button", name="Show all 10,003 characters").click()
    assert said.text_content().endswith("end")


def test_a_phone_shows_everything_without_scrolling_sideways(look_at):
    groups = (runs.hostile_group(), runs.ErrorGroup("word" * 200, "low", ("c0",) * 50))
    result = runs.suite(*runs.two_agents().scenarios, runs.hostile(), groups=groups)
    page = look_at(result, viewport=PHONE, color_scheme="dark")
    open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_scheme_and_can_be_read(look_at, scheme, is_dark):
    page = look_at(runs.two_agents(), color_scheme=scheme)
    paper, ink = page.evaluate(browser.COLOURS)
    assert (paper < ink) is is_dark
    assert abs(paper - ink) > 500


def test_hostile_text_is_only_text(look_at):
    page = look_at(runs.suite(runs.hostile(), groups=(runs.hostile_group(),)))
    open_all(page)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "</script><script>alert(1)</script>" in page.locator("li.user").inner_text()


def test_a_page_of_no_scenarios_is_a_page_too(look_at):
    assert look_at(runs.suite()).locator("#count").inner_text() == "0 of 0 scenarios shown"


def test_printing_unfolds_what_is_shown_and_folds_it_again(look_at):
    page = look_at(runs.two_agents())
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.foldedInPrint = ({FOLDED})(); }})")
    assert page.evaluate(FOLDED) == 4
    page.pdf()
    assert page.evaluate("foldedInPrint") == 0
    assert page.locator("details[open]").count() == 0


def test_the_policy_of_the_page_lets_nothing_out(open_page, watched_page):
    page = open_page(html_report(runs.two_agents()))
    assert page.evaluate(browser.BLOCKED) == "connect-src"
    watched_page.take_happened()
