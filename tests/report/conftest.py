"""One browser page for the tests of a file."""

import pytest

from tests.report import browser


@pytest.fixture(scope="module")
def watched_page():
    """A page that tests open reports in, one after the other.

    Not for the whole run: Playwright keeps an event loop running on this thread, and other tests run their own.
    """
    browser.require()
    with browser.started() as chromium:
        yield browser.Watched(chromium.new_page())


@pytest.fixture
def open_page(watched_page, tmp_path):
    """Opens the HTML that is given; in the end nothing must have happened there that should not."""
    count = iter(range(100))

    def open_page(html, at="", viewport=browser.DESKTOP, color_scheme="light"):
        path = tmp_path / f"report-{next(count)}.html"
        path.write_bytes(html)
        watched_page.page.set_viewport_size(viewport)
        watched_page.page.emulate_media(media="screen", color_scheme=color_scheme)
        watched_page.open(path.as_uri() + at)
        return watched_page.page

    yield open_page
    assert watched_page.take_happened() == []
