"""A viewer of runs of all kinds, and pages of a browser that look at it."""

from contextlib import contextmanager

import pytest

from offbook.report.exploration.page import exploration_page
from offbook.report.exploration.report_input import ReportOptions
from offbook.report.scenarios.json_report import html_report
from offbook.view.library import RunLibrary
from offbook.view.server import ViewServer
from tests.report import browser, runs
from tests.report.exploration import explorations
from tests.view import sample
from tests.view.pages import axe


@pytest.fixture(scope="module")
def chromium():
    browser.require()
    with browser.started() as started:
        yield started


@pytest.fixture(scope="session")
def has_axe():
    axe.require()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = sample.write_runs(tmp_path_factory.mktemp("runs"))
    report = exploration_page(ReportOptions(explorations.reproduce).report_input(explorations.with_pair()))
    sample.write(made / "exploration.html", report)
    sample.write(made / "scenarios.html", html_report(runs.two_agents()))
    return made


@pytest.fixture(scope="module")
def view(folder):
    with ViewServer(RunLibrary([folder])) as server:
        yield server


@pytest.fixture
def look(chromium, view):
    """Opens a page of the viewer. In the end, nothing must have gone wrong in it."""
    wrong = []

    @contextmanager
    def opened(at="", *, width=1400, scheme="light", url=None):
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.goto((url or view.url) + at)
        if url is None or url.startswith("http"):
            page.wait_for_selector("html[data-ready], #data", state="attached")
        try:
            yield page
        finally:
            page.close()

    yield opened
    assert wrong == []
