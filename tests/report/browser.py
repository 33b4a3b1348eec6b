"""A real browser to look at pages with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str | None:
    """Where Chromium is, if it is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def reason_to_skip() -> str:
    """Why no browser can run here, or nothing if one can."""
    return "" if executable() else "chromium is not installed"


def is_required() -> bool:
    """Whether to fail where no browser can run, instead of skipping."""
    return os.environ.get("OFFBOOK_REQUIRE_BROWSER") == "1"


@contextmanager
def started() -> Iterator[Browser]:
    """A Chromium without a window."""
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
        asked_for = f"request: {url.partition('#')[0]}"
        self.happened = [each for each in self.happened if each != asked_for]
