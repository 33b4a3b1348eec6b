"""Explorations as a page, in a browser."""

import re

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from offbook.explore.schedule import LeftOutFault
from offbook.explore.verdict import LABELS, VERDICTS, Assessment, stored_assessment
from offbook.report.exploration import exploration_reporter_of
from offbook.report.exploration.page import exploration_page
from offbook.report.exploration.report_input import LEFT_OUT_HINT, ReportOptions
from tests.report import browser
from tests.report.exploration import explorations

PHONE = {"width": 360, "height": 780}
CONTRASTS = """() => [...document.querySelectorAll("#heatmap button")].map((button) => {
    const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
    const style = getComputedStyle(button);
    const [dark, bright] = [light(style.color), light(style.backgroundColor)].sort((one, other) => one - other);
    return (bright + 0.05) / (dark + 0.05);
})"""


@pytest.fixture
def look_at(open_page):
    """Opens the page of an exploration."""

    def look_at(exploration, before=None, **settings):
        options = ReportOptions(explorations.reproduce, before)
        return open_page(exploration_page(options.report_input(exploration)), **settings)

    return look_at


def page_of(exploration):
    return exploration_page(ReportOptions(explorations.reproduce).report_input(exploration))


def cell(page, label):
    return page.get_by_role("button", name=label, exact=True)


def open_all(page):
    """Open everything that can be opened, by its summary."""
    inside = "dialog[open] " if page.locator("dialog[open]").count() else ""
    while (closed := page.locator(f"{inside}details:not([open]) > summary:visible")).count():
        closed.first.click()
        page.evaluate(browser.TOGGLED)


def all_kinds():
    """An exploration with every label of verdicts."""
    exploration = explorations.large(calls=1)
    judged = [stored_assessment(verdict, ()) for verdict in VERDICTS]
    explored = zip(exploration.results, (*judged, Assessment("repeated effect", reason="possible")), strict=False)
    return replace(
        exploration,
        results=tuple(replace(each, assessment=assessment) for each, assessment in explored),
    )


def test_the_heatmap_has_a_button_for_each_cell_with_its_sign_and_its_meaning(look_at):
    page = look_at(explorations.naive())
    rows = page.locator("#heatmap tbody tr")
    assert rows.first.locator("th, td").all_inner_texts() == ["1 → find_order(42)", "✓", "!", ""]
    assert rows.count() == 4
    assert cell(page, "refund(42), tool_lost: repeated effect 2×").inner_text() == "2×"
    assert page.locator("#totals").inner_text() == "6 cases, 3 findings"
    assert page.title() == "Exploration of refund_agent"


def test_a_cell_opens_its_run_by_keyboard_and_escape_leads_back(look_at):
    page = look_at(explorations.naive())
    button = cell(page, "refund(42), tool_lost: repeated effect 2×")
    button.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    text = dialog.inner_text()
    assert page.locator("#run-title").inner_text() == "2× refund ran 2 times, usually once"
    for part in (
        "repeated effect: it changed something once more than it should.",
        "Case 0006, at tool=refund call=1: tool_lost",
        "refund ran 2 times",
        "offbook explore refund.py --only 0006",
        "3 calls before the fault",
    ):
        assert part in text
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(button).to_be_focused()


def test_the_timeline_marks_where_the_fault_fired_and_what_came_after(look_at):
    page = look_at(explorations.naive())
    cell(page, "refund(42), tool_lost: repeated effect 2×").click()
    dialog = page.get_by_role("dialog")
    fired = dialog.locator("li.fired")
    assert fired.count() == 1
    assert fired.inner_text().startswith("⚡ the fault fires here\nTool refund 1")
    after = dialog.locator("ol.after > li")
    assert [each.inner_text().splitlines()[0] for each in after.all()] == [
        'Model 3 agent gpt-4o-mini asks for refund({"order_id":42})',
        'Tool refund 2 refund({"order_id":42}) side effect',
    ]
    dialog.get_by_text("3 calls before the fault").click()
    expect(dialog.locator("ol.timeline").first.locator("> li")).to_have_count(3)


def test_the_calls_of_tools_stand_beside_those_of_the_clean_run(look_at):
    page = look_at(explorations.naive())
    cell(page, "refund(42), tool_lost: repeated effect 2×").click()
    rows = page.locator("dialog .pairs tbody tr")
    assert rows.evaluate_all("rows => rows.map((row) => row.className)") == ["", "differs", "differs"]
    assert rows.nth(2).locator("td").first.inner_text() == "–"
    page.keyboard.press("Escape")
    cell(page, "1 → find_order(42), connection_reset: recovered").click()
    text = page.get_by_role("dialog").inner_text()
    assert "The same calls of tools as without the fault." in text
    assert "1.0 s, without the fault 0.0 s · retry: 1 time" in text


def test_a_run_reports_its_error_or_the_other_result(look_at):
    page = look_at(explorations.naive())
    cell(page, "1 → find_order(42), connection_reset, always: crashed").click()
    assert "✗ ended with RuntimeError (undeclared)\ngave up" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    cell(page, "2 → refund(42), connection_reset: not reached").click()
    text = page.get_by_role("dialog").inner_text()
    assert "Final answer\nlater\nWithout the fault\norder 42 is refunded" in text
    assert "What the agent did\n" in text


def test_the_command_is_copied(look_at):
    page = look_at(explorations.naive())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    cell(page, "1 → find_order(42), connection_reset: recovered").click()
    button = page.get_by_role("dialog").get_by_role("button", name="Copy")
    button.click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "offbook explore refund.py --only 0001"


def test_the_address_of_a_case_opens_it(look_at):
    page = look_at(explorations.naive(), at="#case-0003")
    expect(page.get_by_role("dialog")).to_contain_text("Case 0003, at step=agent call=1: connection_reset")
    page.get_by_role("button", name="Close").click()
    expect(page).to_have_url(re.compile(r"^[^#]*$"))


def test_arrow_keys_go_from_cell_to_cell(look_at):
    page = look_at(explorations.naive())
    cell(page, "1 → find_order(42), connection_reset: recovered").focus()
    for key, label in (
        ("ArrowRight", "1 → find_order(42), connection_reset, always: crashed"),
        ("ArrowDown", "2 → refund(42), connection_reset, always: crashed"),
        ("ArrowDown", "2 → refund(42), connection_reset, always: crashed"),
        ("ArrowLeft", "2 → refund(42), connection_reset: not reached"),
        ("ArrowUp", "1 → find_order(42), connection_reset: recovered"),
    ):
        page.keyboard.press(key)
        expect(cell(page, label)).to_be_focused()


def test_cells_are_filtered_by_verdict_fault_and_call(look_at):
    page = look_at(explorations.with_pair())
    shown, count = page.locator("#heatmap button:visible"), page.locator("#count")
    assert count.inner_text() == "7 of 7 cases shown"
    page.get_by_role("combobox", name="Verdict").select_option("crashed")
    assert [each.get_attribute("aria-label") for each in shown.all()] == [
        "1 → find_order(42), connection_reset, always: crashed",
        "2 → refund(42), connection_reset, always: crashed",
    ]
    assert page.locator("#heatmap thead th:visible").count() == 2
    assert page.locator(".finding:visible").count() == 1
    page.get_by_role("combobox", name="Call").select_option("2 → refund(42)")
    assert count.inner_text() == "1 of 7 cases shown"
    page.get_by_role("combobox", name="Call").select_option("all")
    page.get_by_role("combobox", name="Verdict").select_option("all findings")
    assert count.inner_text() == "4 of 7 cases shown"
    page.get_by_role("combobox", name="Fault").select_option("tool_lost")
    assert [each.inner_text() for each in shown.all()] == ["2×"]
    page.get_by_role("combobox", name="Verdict").select_option("recovered")
    assert count.inner_text() == "0 of 7 cases shown"


def test_cases_of_several_faults_have_a_list_of_their_own(look_at):
    page = look_at(explorations.with_pair())
    page.locator("#beside summary").click()
    page.locator("#beside button").click()
    expect(page.get_by_role("dialog").locator("h3", has_text="Injected")).to_be_visible()
    assert page.get_by_role("dialog").locator("li.fired").count() == 2
    assert not look_at(explorations.naive()).locator("#beside").is_visible()


def test_findings_are_reported_by_cause_and_lead_to_their_cases(look_at):
    page = look_at(explorations.naive())
    findings = page.locator(".finding")
    assert findings.locator("> summary").all_inner_texts() == [
        "2× refund ran 2 times, usually once\nrepeated effect, at tool=refund call=1: tool_lost",
        "! RuntimeError: gave up\ncrashed, at step=agent call=1: connection_reset and in 1 more case",
    ]
    findings.nth(1).locator("> summary").press("Enter")
    expect(findings.nth(1).get_by_text("gave up", exact=True)).to_have_count(1)
    findings.nth(1).get_by_role("button", name="RuntimeError: gave up step=agent call=2: connection_reset").click()
    expect(page.get_by_role("dialog")).to_contain_text("Case 0004")


def test_coverage_reports_what_was_met_and_what_was_never_seen(look_at):
    exploration = explorations.naive()
    page = look_at(replace(exploration, results=exploration.results[:1]))
    coverage = page.locator("#coverage")
    assert "retry ran 1 time" in coverage.inner_text()
    assert "Not seen: fallback, breaker open." in coverage.inner_text()
    assert "Calls that met no fault: 2 → refund(42)" in coverage.inner_text()
    coverage.locator("summary").click()
    expect(coverage.locator("tbody tr")).to_have_text(["1 → find_order(42)connection_reset"])


def test_two_explorations_are_compared(look_at):
    page = look_at(explorations.naive(), before=explorations.sound())
    comparison = page.locator("#comparison")
    assert "3 worse, 2 other changes, 1 the same" in comparison.inner_text()
    assert comparison.locator("tr").first.inner_text().split("\t") == [
        "✗ worse",
        "recovered → crashed",
        "step=agent call=1: connection_reset",
    ]
    assert not look_at(explorations.naive()).locator("#comparison").is_visible()


def test_no_findings_are_reported_as_none_and_a_budget_with_what_it_left_out(look_at):
    left = (LeftOutFault("model", "timeout", 9, 1), LeftOutFault("tool", "tool_error", 3, 0))
    page = look_at(replace(explorations.sound(), left_out=left))
    assert page.locator("#findings").inner_text().splitlines()[-1] == "None."
    assert page.locator("#totals").inner_text() == "6 cases, 0 findings; the budget left out 12 cases"
    assert page.locator("header .note").all_inner_texts() == [
        "by fault: 9 of timeout; 3 of tool_error",
        "not tried at all, because the budget is too small: tool_error",
        LEFT_OUT_HINT,
    ]


def test_an_exploration_that_was_cut_off_says_so_even_before_its_first_case(open_page, tmp_path):
    path = tmp_path / "report.html"
    reporter = exploration_reporter_of(f"html={path}", reproduce=explorations.reproduce)
    reporter.begin(replace(explorations.naive(), results=()), 6)
    page = open_page(path.read_bytes())
    assert page.get_by_text("The exploration ended early").is_visible()
    assert page.locator("#count").inner_text() == "0 of 0 cases shown"


def test_very_long_runs_and_texts_are_shown_in_full_when_asked_for(look_at):
    exploration = explorations.large(calls=250)
    first = exploration.results[0]
    long = replace(
        first, assessment=replace(first.assessment, evidence=("word " * 2000 + "end",)), run=exploration.clean
    )
    page = look_at(replace(exploration, results=(long,)), at="#case-0001")
    dialog = page.get_by_role("dialog")
    assert dialog.locator("ol.timeline > li:not(.ending)").count() == 100
    dialog.get_by_role("button", name="Show 150 more calls").click()
    assert dialog.locator("ol.timeline > li:not(.ending)").count() == 250
    dialog.get_by_role("button", name="Show all 10,003 characters").click()
    assert dialog.locator("pre").first.text_content().endswith("end")


@pytest.mark.parametrize(("name", "scheme"), [("hostile", "light"), ("large", "dark"), ("with_pair", "light")])
def test_a_phone_scrolls_the_heatmap_and_never_the_page_sideways(look_at, name, scheme):
    exploration = getattr(explorations, name)()
    page = look_at(exploration, before=explorations.sound(), viewport=PHONE, color_scheme=scheme)
    open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    button = page.locator("#heatmap button").first
    box = button.bounding_box()
    assert min(box["width"], box["height"]) >= 44
    button.click()
    open_all(page)
    sizes = page.evaluate("['scrollWidth', 'clientWidth'].map((size) => document.querySelector('dialog')[size])")
    assert sizes[0] <= sizes[1] <= PHONE["width"]


def test_a_wide_heatmap_scrolls_inside_its_own_box(look_at):
    page = look_at(explorations.large(), viewport=PHONE)
    inside, outside = page.evaluate(
        "(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.querySelector('.wide'))"
    )
    assert inside > outside


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_scheme_and_every_sign_can_be_read(look_at, scheme, is_dark):
    page = look_at(all_kinds(), color_scheme=scheme)
    paper, ink = page.evaluate(browser.COLOURS)
    assert (paper < ink) is is_dark
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) == len(LABELS)
    assert min(contrasts) >= 4.5


def test_hostile_text_is_only_text(look_at):
    page = look_at(explorations.hostile(), before=explorations.sound())
    open_all(page)
    page.locator("#heatmap button").first.click()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "</script><script>alert(1)</script>" in page.get_by_role("dialog").inner_text()
    assert page.locator("#subject").inner_text().startswith("</script><script>alert(1)")


def test_printing_shows_the_findings_with_their_details_and_no_buttons(look_at):
    page = look_at(explorations.with_pair())
    page.evaluate("""() => {
        addEventListener('beforeprint', () => {
            const folded = [...document.querySelectorAll('main details:not([open])')];
            window.printed = { folded: folded.length, text: document.querySelector('#findings').textContent };
        });
    }""")
    page.pdf()
    printed = page.evaluate("printed")
    assert printed["folded"] == 0
    assert "offbook explore refund.py --only 0006" in printed["text"]
    assert page.locator(".finding[open]").count() == 0
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("button:visible").count() == page.locator("#heatmap button:visible").count() == 6
    assert page.locator("search:visible").count() == 0
    text = page.locator("#findings").inner_text()
    for part in ("refund ran 2 times", "the fault fires here", "Without the fault", "Also"):
        assert part in text
    assert "step=agent call=1 attempt=1: connection_reset; tool=refund call=1: tool_lost" in text


def test_the_policy_of_the_page_lets_nothing_out(open_page, watched_page):
    page = open_page(page_of(explorations.naive()))
    assert page.evaluate(browser.BLOCKED) == "connect-src"
    watched_page.take_happened()
