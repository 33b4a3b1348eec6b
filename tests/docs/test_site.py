"""The site of the documentation in a real browser, as `make docs-site` has built it."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from docs_site.build import ROOT

from tests.report import browser
from tests.servers.foreign import is_required

SITE = ROOT / ".scratch" / "site"
PAGES = ["index.html", "start/openai.html", "start/safety.html", "help/coming-from.html", "reference/commands.html"]

if not is_required("BROWSER"):
    pytestmark = pytest.mark.skipif(bool(browser.reason_to_skip()), reason=browser.reason_to_skip())


class Files(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def address():
    assert (SITE / "index.html").exists(), "make docs-site builds it"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as started:
        yield started


def opened(chromium, *, width, scheme, happened):
    """Return a page that notes requests to other hosts and errors."""
    page = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    page.on("request", lambda request: happened.append(request.url))
    page.on("console", lambda message: happened.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: happened.append(str(error)))
    return page


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_load_nothing_from_elsewhere_fit_the_screen_and_have_no_error(chromium, address, width, scheme):
    happened = []
    page = opened(chromium, width=width, scheme=scheme, happened=happened)
    for name in PAGES:
        page.goto(address + name, wait_until="networkidle")
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
    assert [each for each in happened if not each.startswith((address, "blob:", "data:"))] == []


def test_the_search_finds_a_verdict(chromium, address):
    page = opened(chromium, width=1400, scheme="light", happened=[])
    page.goto(address, wait_until="networkidle")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").or_(page.get_by_placeholder("Search")).first.fill("repeated effect")
    page.get_by_text("offbook explore").first.wait_for()  # a heading of the reference, which is written from the code


def test_the_list_for_language_models_names_pages_that_are_there():
    listed = [line.partition("](")[2].partition(")")[0] for line in (SITE / "llms.txt").read_text().splitlines()]
    assert all((SITE / name).exists() for name in listed)
    assert "start/openai.html" in listed
