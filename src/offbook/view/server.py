"""Serves the viewer: its page, the page's requests about runs and recordings, and reports."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from offbook import __version__
from offbook.errors import InputError
from offbook.files import read_regular
from offbook.report.exploration.json_report import load_reported
from offbook.report.exploration.page import exploration_page
from offbook.report.reporter import encode_json
from offbook.report.scenarios.json_report import html_report, load_suite
from offbook.view.calls import RecordedCalls
from offbook.view.compare import RunComparison, check_comparable
from offbook.view.history import heat_history, suite_history
from offbook.view.library import FoundRun, RunLibrary, digest_runs, has_words
from offbook.view.summary import ListedRun, RunKind, load_recording
from offbook.wire.request import header_dict
from offbook.wire.response import HttpResponse, whole_response
from offbook.wire.server.access import Access, new_token, token_path
from offbook.wire.server.connection import HttpConnection, OpenConnections, Receive, Scope, Send, send_response
from offbook.wire.server.listener import ServerThread, bind_socket
from offbook.workflow.runs.resumable_run import LOG, MANIFEST, read_manifest, read_progress

LOOPBACK = "127.0.0.1"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_STATIC = {
    "/": ("offbook.view", "viewer.html"),
    "/common.css": ("offbook.report", "common.css"),
    "/common.js": ("offbook.report", "common.js"),
    "/viewer.css": ("offbook.view", "viewer.css"),
    **{
        f"/{name}.js": ("offbook.view", f"{name}.js")
        for name in ("viewer", "virtual_list", "runs", "recording", "compare", "history")
    },
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}


class ViewServer:
    """Shows the runs of a library at `url` while its `with` block runs. Port 0 is any free port.

    The URL has a token, without which nothing is shown. `opening_url` leads there once: a browser's command line can be
    read by other users.

    Raises:
        InputError: it cannot listen at the port.
    """

    def __init__(self, library: RunLibrary, *, port: int = 0) -> None:
        token, once = new_token(), new_token()
        self._api, self._access, self._opening = ViewApi(library), Access(token=token), Access(token=once)
        listener = bind_socket(LOOPBACK, port)
        address = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        self.url, self.opening_url = f"{address}{token_path(token)}/", f"{address}{token_path(once)}/"
        opened = OpenConnections()
        self._thread = ServerThread(listener, partial(HttpConnection, self._answer, opened), opened)
        self._turn: asyncio.Lock | None = None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = header_dict(scope["headers"])
        query = scope["query_string"].decode("latin-1")
        refusal = self._access.refusal(headers, query)
        if refusal is not None and self._opening.refusal(headers, query) is None:
            self._opening = Access(token=new_token())
            response = HttpResponse(303, _SAFE | {"location": self.url, "content-length": "0"})
        elif refusal is not None:
            message = "open the whole address that offbook view prints" if refusal.status == 401 else refusal.message
            response = _error(refusal.status, message)
        elif scope["method"] not in ("GET", "HEAD"):
            response = _error(405, "the viewer changes nothing: GET and HEAD are all that it answers")
        elif scope["path"] in _STATIC:
            response = _static(scope["path"])
        else:
            response = await self._dynamic(scope["path"], query, headers.get("if-none-match", ""))
        await send_response(response, scope, receive, send)

    async def _dynamic(self, path: str, query: str, known: str) -> HttpResponse:
        """Read the requested data in a thread, one request at a time, to keep the page responsive."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            try:
                fields = dict(parse_qsl(query))
                answer = await asyncio.to_thread(self._api.answer, path, fields, known.strip('"'))
            except InputError as error:
                return _error(404, str(error))
        return HttpResponse(304, dict(_SAFE)) if answer is None else _found(answer)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the server. Safe to call twice."""
        self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _found(answer: ApiAnswer) -> HttpResponse:
    headers = {**_SAFE, "etag": f'"{answer.tag}"'}
    return whole_response(200, answer.body, headers=headers, content_type=answer.content_type)


def _error(status: int, message: str) -> HttpResponse:
    return whole_response(status, msgspec.json.encode({"error": message}), headers=_SAFE)


@cache
def _static(path: str) -> HttpResponse:
    package, name = _STATIC[path]
    body = (files(package) / "page" / name).read_bytes()
    content_type = f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    return whole_response(200, body, headers=_SAFE | {"content-security-policy": _POLICY}, content_type=content_type)


MAX_PAGE = 500
KEPT = 6
"""The number of recordings and comparisons kept in memory, most recently used."""

_WAY_BACK = b'<header>\n<p class="faint"><a href="./#/runs">\xe2\x86\x90 all runs</a></p>'

Query: TypeAlias = Mapping[str, str]
T = TypeVar("T")


class ApiAnswer(Struct, frozen=True):
    """The body of an answer, and a tag that changes with it."""

    body: bytes
    tag: str
    content_type: str = "application/json"


class ViewApi:
    """Answers by path. Data is kept while the files are unchanged."""

    def __init__(self, library: RunLibrary) -> None:
        self._library = library
        self._kept: dict[tuple[object, ...], Any] = {}
        self._routes: dict[str, Callable[[Query, str], ApiAnswer]] = {
            "/api/runs": self._runs,
            "/api/recording": self._recording,
            "/api/conversation": self._conversation,
            "/api/call": self._call,
            "/api/workflow": self._workflow,
            "/api/compare": self._compare,
            "/api/explorations": self._explorations,
            "/api/heatmap": self._heatmap,
            "/api/scenarios": self._scenarios,
            "/report": self._report,
        }

    def answer(self, path: str, query: Query, known_tag: str = "") -> ApiAnswer | None:
        """Return the answer to a request, or None if the client's tag is current.

        Raises:
            InputError: the thing does not exist or cannot be read.
        """
        route = self._routes.get(path)
        if route is None:
            raise InputError(f"there is no {path}", source="view")
        try:
            return route(query, known_tag)
        except _UnchangedError:
            return None

    def _listed(self) -> list[tuple[ListedRun, FoundRun]]:
        found = [run for run in self._library.find() if not run.part_of]
        return list(zip(self._library.listed(found), found, strict=True))

    def _runs(self, query: Query, known: str) -> ApiAnswer:
        listed = self._listed()
        runs = [run for run, _ in listed]
        pending = sum(run.kind == "pending" for run in runs)
        tag = _new_tag(known, [found for _, found in listed], str(sorted(query.items())), str(pending))
        words, kind = query.get("q", "").lower().split(), query.get("kind", "")
        matching = [run for run, found in listed if kind in ("", run.kind) and has_words(run, found, words)]
        start, count = _page(query)
        body = {
            "version": __version__,
            "places": [str(place) for place in self._library.places],
            "total": len(runs),
            "matching": len(matching),
            "pending": pending,
            "kinds": Counter(run.kind for run in runs),
            "offset": start,
            "runs": _sorted(matching, query.get("sort", ""))[start : start + count],
        }
        return ApiAnswer(encode_json(body), tag)

    def _recorded(self, query: Query) -> tuple[FoundRun, RecordedCalls]:
        run = self._library.run(query.get("id", ""))
        if run.shape != "file":
            raise InputError("it is not a recording", source=run.id)
        return run, self._keep(("calls", run.path, run.signature), lambda: self._load(run))

    def _load(self, run: FoundRun) -> RecordedCalls:
        document = load_recording(run.path)
        self._library.note(run, document)
        return RecordedCalls(document)

    def _recording(self, query: Query, known: str) -> ApiAnswer:
        run = self._library.run(query.get("id", ""))
        tag = _new_tag(known, [run], str(sorted(query.items())))
        _, calls = self._recorded(query)
        start, count = _page(query)
        rows = calls.search(query.get("q", "").lower().split())
        body = {
            "run": self._library.summary(run),
            "part_of": run.part_of,
            "all": len(calls),
            "total": len(rows),
            "span_ms": calls.span_ms,
            "offset": start,
            "calls": rows[start : start + count],
        }
        return ApiAnswer(encode_json(body), tag)

    def _conversation(self, query: Query, known: str) -> ApiAnswer:
        run, calls = self._recorded(query)
        tag = _new_tag(known, [run], str(sorted(query.items())))
        start, count = _page(query)
        body = {"total": len(calls), "offset": start, "calls": calls.conversation(start, min(count, 100))}
        return ApiAnswer(encode_json(body), tag)

    def _call(self, query: Query, known: str) -> ApiAnswer:
        run, calls = self._recorded(query)
        number = _number(query, "number", 0)
        if not 1 <= number <= len(calls):
            raise InputError(f"there is no call {number}", source=run.id)
        return ApiAnswer(encode_json(calls.detail(number - 1)), _new_tag(known, [run], str(number)))

    def _workflow(self, query: Query, known: str) -> ApiAnswer:
        run = self._library.run(query.get("id", ""))
        if run.shape != "folder":
            raise InputError("it is not a workflow run", source=run.id)
        steps = [found for found in self._library.find() if found.part_of == run.id]
        tag = _new_tag(known, [run, *steps])
        progress = read_progress(run.path / LOG)
        manifest = read_manifest(run.path / MANIFEST)
        body = {
            "run": self._library.summary(run),
            "workflow": manifest.workflow,
            "started_at": manifest.started_at,
            "offbook": manifest.version,
            "steps": [{"place": place, "result": result} for place, result in progress.results.items()],
            "recordings": [{"id": each.id, "name": each.path.stem} for each in steps],
        }
        return ApiAnswer(encode_json(body), tag)

    def _compare(self, query: Query, known: str) -> ApiAnswer:
        left, right = self._library.run(query.get("left", "")), self._library.run(query.get("right", ""))
        tag = _new_tag(known, [left, right], str(sorted(query.items())))
        sides = self._library.summary(left), self._library.summary(right)
        check_comparable(sides[0].kind, sides[1].kind)
        key = ("compare", left.path, left.signature, right.path, right.signature)
        found = self._keep(key, lambda: RunComparison(left.path, right.path, sides[0].kind))
        start, count = _page(query)
        pairs, total = found.page(start, count, only_changed=query.get("changed") == "1")
        body = {
            "kind": sides[0].kind,
            "left": sides[0],
            "right": sides[1],
            "all": len(found.pairs),
            "same": found.same,
            "total": total,
            "offset": start,
            "pairs": pairs,
        }
        return ApiAnswer(encode_json(body), tag)

    def _of_kind(self, kind: RunKind) -> list[tuple[ListedRun, FoundRun]]:
        return [(run, found) for run, found in self._listed() if run.kind == kind]

    def _explorations(self, query: Query, known: str) -> ApiAnswer:
        listed = self._of_kind("exploration")
        tag = _new_tag(known, [found for _, found in listed])
        groups: dict[str, list[ListedRun]] = {}
        for run, _ in listed:
            groups.setdefault(run.origin, []).append(run)
        body = {"groups": [{"subject": subject, "runs": runs} for subject, runs in groups.items()]}
        return ApiAnswer(encode_json(body), tag)

    def _heatmap(self, query: Query, known: str) -> ApiAnswer:
        subject = query.get("subject", "")
        listed = [(run, found) for run, found in self._of_kind("exploration") if run.origin == subject]
        if not listed:
            raise InputError(f"there is no exploration of {subject!r}", source="view")
        tag = _new_tag(known, [found for _, found in listed], subject)
        return ApiAnswer(encode_json(heat_history(subject, [(run, found.path) for run, found in listed])), tag)

    def _scenarios(self, query: Query, known: str) -> ApiAnswer:
        listed = self._of_kind("scenarios")
        tag = _new_tag(known, [found for _, found in listed])
        return ApiAnswer(encode_json(suite_history([(run, found.path) for run, found in listed])), tag)

    def _report(self, query: Query, known: str) -> ApiAnswer:
        run = self._library.run(query.get("id", ""))
        kind, tag = self._library.summary(run).kind, _new_tag(known, [run], "report")
        if kind == "exploration":
            page = exploration_page(load_reported(run.path))
        elif kind == "scenarios":
            page = html_report(load_suite(read_regular(run.path), source=run.id))
        else:
            raise InputError("it has no report: only explorations and scenario runs do", source=run.id)
        return ApiAnswer(page.replace(b"<header>", _WAY_BACK, 1), tag, "text/html; charset=utf-8")

    def _keep(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the new value for a key, and forget the least recently used one."""
        made: T = self._kept.pop(key) if key in self._kept else make()
        self._kept[key] = made
        for old in list(self._kept)[:-KEPT]:
            self._kept.pop(old, None)
        return made


class _UnchangedError(Exception):
    """The client already has the answer."""


def _new_tag(known: str, runs: Sequence[FoundRun], *more: str) -> str:
    """Return the tag of an answer that depends on these runs. Raises _UnchangedError if the client has it."""
    tag = digest_runs(runs, *more)
    if tag == known:
        raise _UnchangedError
    return tag


def _sorted(runs: list[ListedRun], by: str) -> list[ListedRun]:
    """Return runs sorted by a field, like `cost_usd`, or `-cost_usd` for descending order; without one, unsorted."""
    name = by.removeprefix("-")
    if name not in ("id", "kind", "verdict", "cost_usd", "tokens", "took_s", "modified_at", "count"):
        return runs
    return sorted(runs, key=lambda run: getattr(run, name), reverse=by.startswith("-"))


def _page(query: Query) -> tuple[int, int]:
    return max(0, _number(query, "offset", 0)), max(0, min(MAX_PAGE, _number(query, "limit", 100)))


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
