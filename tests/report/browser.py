"""A real browser to look at pages with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tests.servers.foreign import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP = {"width": 1280, "height": 720}
TOGGLED = "() => new Promise((done) => setTimeout(done))"  # the browser tells what was opened in a task of its own
COLOURS = """() => ["backgroundColor", "color"].map((name) => {
    const parts = getComputedStyle(document.body)[name].match(/[0-9]+/g).slice(0, 3).map(Number);
    return parts[0] + parts[1] + parts[2];
})"""
BLOCKED = """() => new Promise((resolve) => {
    addEventListener('securitypolicyviolation', (event) => resolve(event.violatedDirective));
    fetch('http://127.0.0.1:9/').catch(() => null);
})"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str | None:
    """Where Chromium is, if it is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def reason_to_skip() -> str:
    """Why no browser can run here, or nothing if one can."""
    if not executable():
        return "chromium is not installed"
    return "" if find_spec("playwright") else "Playwright is not installed: make conformance"


def require() -> None:
    """Skip the test where no browser can run, or fail it if one is required."""
    skip_or_fail(reason_to_skip(), "BROWSER")


@contextmanager
def started() -> Iterator[Browser]:
    """A Chromium without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - 'make test' does not install it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable())
        yield browser
        browser.close()


class Watched:
    """A page, and what happened in it that should not: messages on its console, errors, dialogs, requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.happened: list[str] = []
        page.on("console", lambda message: self.happened.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.happened.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.happened.append(f"dialog: {dialog.message}"))
        page.on("request", self._note_request)

    def _note_request(self, request: object) -> None:
        url = getattr(request, "url", "")
        if url != self.page.url and not url.startswith("data:"):
            self.happened.append(f"request: {url}")

    def open(self, url: str) -> None:
        """Go to a page of this machine."""
        self.page.goto(url)
        own_request = f"request: {url.partition('#')[0]}"
        self.happened = [each for each in self.happened if each != own_request]

    def take_happened(self) -> list[str]:
        """Return what has happened since the last call."""
        happened, self.happened = self.happened, []
        return happened
