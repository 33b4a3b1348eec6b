"""The viewer in a real browser."""

import json

import pytest
from playwright.sync_api import expect

from offbook.recording.format.file import render_document
from offbook.view.library import RunLibrary
from offbook.view.server import ViewServer
from tests.view import sample
from tests.view.pages import axe

VIEWS = {
    "runs": "#/runs",
    "recording": "#/recording/refund-tuesday.json?call=4",
    "comparison": "#/compare/refund-monday.json/refund-tuesday.json",
    "explorations": "#/explorations",
    "heatmap": "#/heatmap/refund_agent",
    "scenarios": "#/scenarios",
    "report of an exploration": "report?id=explored/v2.json",
    "report of scenarios": "report?id=nightly/monday.json",
    "nothing": "#/recording/gone.json",
}
SIZES = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", [name for name in VIEWS if name != "nothing"])
def test_every_view_fits_and_is_accessible(look, has_axe, name, width, scheme):
    with look(VIEWS[name], width=width, scheme=scheme) as page:
        expect(page.locator("main")).not_to_be_empty()
        shown, room = page.evaluate(SIZES)
        assert shown <= room
        paper, ink = page.evaluate(
            "['backgroundColor', 'color'].map((name) => +getComputedStyle(document.body)[name].match(/[0-9]+/)[0])"
        )
        assert (paper < ink) is (scheme == "dark")
        assert axe.serious_problems(page) == []


@pytest.mark.parametrize("name", ["exploration.html", "scenarios.html"])
@pytest.mark.parametrize("width", [1400, 390])
def test_a_written_report_is_accessible_with_all_of_it_open(look, has_axe, folder, name, width):
    with look(url=(folder / name).as_uri(), width=width) as page:
        while (closed := page.locator("details:not([open]) > summary:visible")).count():
            closed.first.click()
            page.evaluate("() => new Promise((done) => setTimeout(done))")
        assert axe.serious_problems(page) == []
        if page.locator("#heatmap button").count():
            page.locator("#heatmap button").first.click()
            assert axe.serious_problems(page) == []


def test_the_list_is_searched_and_its_address_leads_back_to_the_search(look):
    with look() as page:
        page.keyboard.press("/")
        page.keyboard.type("refund gpt")
        expect(page.locator("#count")).to_have_text("5 of 9 runs")
        page.reload()
        expect(page.locator("#count")).to_have_text("5 of 9 runs")
        page.get_by_label("Search").fill("")
        page.locator("#kind").select_option("unreadable")
        expect(page.locator(".row")).to_have_count(2)
        expect(page.locator(".row .origin").last).to_contain_text("the JSON ends in the middle")


def test_a_call_is_found_in_its_recording(look):
    with look("#/recording/refund-tuesday.json") as page:
        expect(page.locator("#count")).to_have_text("6 of 6 calls")
        page.get_by_label("Search").fill("http_error")
        expect(page.locator("#count")).to_have_text("1 of 6 calls")
        expect(page.locator(".row")).to_have_count(1)
        page.reload()
        expect(page.locator("#count")).to_have_text("1 of 6 calls")


def test_keys_alone_open_a_run_and_walk_through_its_calls(look):
    with look() as page:
        row = page.locator(".row")
        page.locator("#kind").select_option("recording")
        expect(row).to_have_count(2)
        page.locator("#sort").focus()
        page.keyboard.press("Tab")
        expect(row.first.get_by_role("checkbox")).to_be_focused()
        page.keyboard.press("Tab")
        expect(row.first.get_by_role("link")).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(row.nth(1).get_by_role("link")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("refund-monday.json")
        first = page.locator(".calls .row").first.get_by_role("link")
        first.focus()
        for key in ("End", "Enter"):
            page.keyboard.press(key)
        expect(page.locator("#call-5")).to_be_focused()
        assert page.evaluate("location.hash").endswith("?call=5")
        expect(page.locator("#call-5")).to_contain_text("Order 42 is refunded: you get 30 back.")


def test_an_address_of_a_call_opens_it(look):
    with look("#/recording/refund-tuesday.json?call=3") as page:
        expect(page.locator("#call-3")).to_have_class("chosen")
        expect(page.locator("#call-3")).to_contain_text("http_error 500")
        page.locator("#call-3 summary").click()
        expect(page.locator("#call-3 pre")).to_contain_text('"status_code": 500')


def test_two_runs_are_chosen_and_compared(look):
    with look("#/runs?kind=recording") as page:
        for name in ("refund-monday.json", "refund-tuesday.json"):
            page.get_by_label(f"Compare {name}").check()
        page.locator("#compare").click()
        expect(page.locator("#totals")).to_have_text("2 differences, 4 the same")
        page.locator("details summary").first.click()
        expect(page.locator(".difference .added").first).to_contain_text("was refunded")
        page.get_by_label("Only what differs").uncheck()
        expect(page.locator(".pairs tbody tr:not(.explained)")).to_have_count(6)


def test_a_cell_of_the_heatmap_of_all_versions_opens_its_case(look):
    with look("#/heatmap/refund_agent") as page:
        page.get_by_label("Only what changed").check()
        sign = page.get_by_role("link", name="refund(42), tool_lost, explored/v1.json: repeated effect 2×")
        assert sign.inner_text() == "2×"
        sign.click()
        expect(page.get_by_role("dialog")).to_contain_text("refund ran 2 times, usually once")
        page.keyboard.press("Escape")
        page.get_by_role("link", name="← all runs").click()
        expect(page.locator("#count")).to_have_text("9 of 9 runs")


def test_what_is_gone_is_said_and_leads_back(chromium, view):
    page = chromium.new_page()
    page.goto(view.url + VIEWS["nothing"])
    expect(page.locator("main")).to_contain_text("there is no run 'gone.json'")
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("#count")).to_have_text("9 of 9 runs")
    page.close()


def test_a_run_that_grows_is_shown_as_it_grows(look, tmp_path):
    path = tmp_path / "live.json"
    half, whole = sample.long_recording(2), sample.long_recording(3)
    sample.write(path, render_document(half), hours=1)
    with ViewServer(RunLibrary([tmp_path])) as server, look("#/recording/live.json", url=server.url) as page:
        expect(page.locator(".calls .row")).to_have_count(2)
        sample.write(path, render_document(whole), hours=2)
        expect(page.locator(".calls .row")).to_have_count(3)
        expect(page.locator("ol.conversation > li")).to_have_count(3)
        page.goto(server.url + "#/runs")
        sample.write(tmp_path / "half.json", b'{"_version": 2, "gre', hours=3)
        expect(page.locator(".row")).to_have_count(2)
        sample.write(tmp_path / "half.json", b'{"_version": 2, "greet": {"content": "Hello."}}', hours=4)
        expect(page.get_by_text("1 call", exact=True)).to_be_visible()


def test_a_thousand_runs_and_ten_thousand_calls_are_few_elements(look, tmp_path):
    data = json.dumps({"_version": 2, "greet": {"content": "Hello."}}).encode()
    for number in range(1000):
        sample.write(tmp_path / f"run-{number:04}.json", data)
    sample.write(tmp_path / "long.json", render_document(sample.long_recording(10_000)), hours=1)
    with ViewServer(RunLibrary([tmp_path])) as server, look(url=server.url) as page:
        expect(page.locator("#count")).to_have_text("1,001 of 1,001 runs")
        assert page.locator(".row").count() < 60
        page.locator(".row a").first.focus()
        page.keyboard.press("End")
        expect(page.get_by_role("link", name="run-0999.json")).to_be_focused()
        page.goto(server.url + "#/recording/long.json")
        expect(page.locator(".calls .row").first).to_contain_text("answer 0")
        page.locator(".calls .row a").first.focus()
        page.keyboard.press("End")
        expect(page.locator(".calls .row").last).to_contain_text("answer 9999")
        page.keyboard.press("Enter")
        expect(page.locator("#call-10000")).to_be_focused()
        assert page.locator(".calls .row").count() < 60
        assert page.locator("*").count() < 2000
