"""Subject: how soon the viewer shows many runs and a long recording in a browser, beside a page of one word."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, sync_playwright

from bench.findings import Findings, Row, Table, Target
from bench.plan import Plan
from offbook.messages import Usage
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import render_document
from offbook.view.library import RunLibrary
from offbook.view.server import ViewServer

RUNS, CALLS, REPEATS = 1_000, 10_000, (5, 3)
PAINTED, FILLED, ELEMENTS = "first paint, ms", "all rows in view filled, ms", "elements"
LIMIT_MS = 1_000.0
_WORD = "data:text/html,<p>offbook"
_READ = """() => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime))
    .observe({ type: "paint", buffered: true }))"""


def measure(plan: Plan) -> Findings:
    """A folder of 1,000 small recordings, and one recording of 10,000 calls, each looked at for the first time."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return Findings("viewer", notes=["chromium is not installed: nothing was measured"])
    repeats = plan.repeats(*REPEATS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        shown = partial(_shown, browser, repeats=repeats)
        plan.tell("viewer: a page of one word")
        rows = [Row("floor: a page of one word", [_best(browser, _WORD, repeats), None, None])]
        for name, at, write in (
            (f"{RUNS:,} runs", "", _write_runs),
            (f"{CALLS:,} calls", "#/recording/long.json", _write_long),
        ):
            plan.tell(f"viewer: {name}")
            folder = plan.library.folder / f"viewer-{name}"
            folder.mkdir()
            write(folder)
            rows.append(Row(name, shown(folder, at)))
        browser.close()
    table = Table("what a browser shows", "", [PAINTED, FILLED, ELEMENTS], rows, base=rows[0].name)
    targets = [
        Target(
            f"{row.name}: first paint in less than a second",
            f"{row.figures[0]:.0f} ms",
            (row.figures[0] or 0) < LIMIT_MS,
        )
        for row in rows[1:]
    ]
    notes = [f"best of {repeats}; each with a new server, which has read nothing before; the browser is warm"]
    return Findings("viewer", [table], targets, notes)


def _shown(browser: Browser, folder: Path, at: str, *, repeats: int) -> list[float | None]:
    """Return the best times of the first paint and until the rows in view are there, and the number of elements."""
    painted: list[float] = []
    filled: list[float] = []
    elements = 0
    for _ in range(repeats):
        with ViewServer(RunLibrary([folder])) as server:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(server.url + at)
            painted.append(float(page.evaluate(_READ)))
            page.locator(".row").nth(10).wait_for()
            page.wait_for_selector(".kind-pending", state="detached")
            filled.append(float(page.evaluate("performance.now()")))
            elements = page.locator("*").count()
            page.close()
    return [min(painted), min(filled), float(elements)]


def _best(browser: Browser, url: str, repeats: int) -> float:
    painted = []
    for _ in range(repeats):
        page = browser.new_page()
        page.goto(url)
        painted.append(float(page.evaluate(_READ)))
        page.close()
    return min(painted)


def _write_runs(folder: Path) -> None:
    for number in range(RUNS):
        (folder / f"run-{number:04}.json").write_bytes(render_document(_document(3)))


def _write_long(folder: Path) -> None:
    (folder / "long.json").write_bytes(render_document(_document(CALLS)))


def _document(calls: int) -> Document:
    document = Document()
    for number in range(calls):
        name = f"{number:064x}"
        request = {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}
        exchange = Exchange(
            content=f"answer {number}",
            model="m",
            latency_ms=500.0,
            usage=Usage.of(100, 20),
            recorded_at=f"2026-11-17T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}+00:00",
            request_hash=name,
            request=msgspec.Raw(msgspec.json.encode(request)),
        )
        document.add(name, exchange)
    return document
