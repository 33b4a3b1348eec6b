"""Summarises runs for a list: kind, verdict, origin and figures, or why a run cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import replace

from offbook.decoding import decode
from offbook.errors import InputError, OffbookError
from offbook.explore.verdict import LABELS
from offbook.files import read_regular
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import PLAIN_HTTP, WEBSOCKET
from offbook.recording.stores.json_file import JsonFileStore
from offbook.text import pluralize, shorten
from offbook.workflow.runs.store import summary_of

RunKind = Literal["recording", "exploration", "scenarios", "workflow", "unreadable", "pending"]
Tone = Literal["good", "bad", "plain", "busy"]
"""The style in which a verdict is shown."""

MAX_ORIGIN_CHARS = 120
MAX_PROBLEM_CHARS = 400


class ListedRun(Struct, frozen=True, kw_only=True):
    """A run in the list. `took_s` is from the start of the first call to the end of the last one.

    `count` is its number of calls, cases, scenarios or steps, named by `noun`.
    """

    id: str
    kind: RunKind
    modified_at: str
    size_bytes: int
    verdict: str = ""
    tone: Tone = "plain"
    origin: str = ""
    count: int = 0
    noun: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    took_s: float = 0.0
    problem: str = ""

    @property
    def searched(self) -> str:
        """The text that a search looks at, in lower case."""
        return " ".join((self.id, self.kind, self.verdict, self.origin, self.problem)).lower()


def iso_time(seconds: float) -> str:
    """Return a time as UTC text, to the second."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def pending_run(id: str, modified_s: float, size_bytes: int) -> ListedRun:
    """Return a run that was not read yet."""
    return ListedRun(id=id, kind="pending", modified_at=iso_time(modified_s), size_bytes=size_bytes, tone="busy")


def summarize(path: Path, *, id: str, modified_s: float, size_bytes: int) -> ListedRun:
    """Return the summary of a file, or of the folder of a workflow run. Never fails: a run may be unreadable."""
    run = pending_run(id, modified_s, size_bytes)
    try:
        return _of_folder(path, run) if path.is_dir() else _of_file(path, run)
    except (OffbookError, OSError, ValueError, RecursionError) as error:
        return replace(run, kind="unreadable", tone="bad", verdict="unreadable", problem=_reason(error))


def _reason(error: BaseException) -> str:
    text = f"{error.place}: {error.reason}" if isinstance(error, InputError) and error.place else ""
    text = text or (error.reason if isinstance(error, InputError) else str(error) or type(error).__name__)
    return shorten(text, MAX_PROBLEM_CHARS)


def _of_folder(path: Path, run: ListedRun) -> ListedRun:
    found = summary_of(path)
    if found.status == "unreadable":
        return replace(run, kind="unreadable", tone="bad", verdict="unreadable", problem=found.problem)
    tones: dict[str, Tone] = {"succeeded": "good", "running": "busy", "failed": "bad"}
    return replace(
        run,
        kind="workflow",
        verdict=found.status,
        tone=tones.get(found.status, "plain"),
        origin=found.path,
        count=found.settled_steps,
        noun=f"of {pluralize(found.steps, 'step')}",
        cost_usd=found.cost_usd,
    )


class _Kind(Struct):
    """The fields that distinguish the kinds of JSON files."""

    explored: Raw | UnsetType = msgspec.UNSET
    scenarios: Raw | UnsetType = msgspec.UNSET
    version: Raw | UnsetType = msgspec.UNSET


def kind_of(data: bytes) -> RunKind:
    """Return the kind of run in a file by its field names; the default is a recording."""
    try:
        found = decode(data, _Kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "recording"  # whose reader says what is wrong
    if found.version is msgspec.UNSET:
        return "recording"
    if found.explored is not msgspec.UNSET:
        return "exploration"
    return "recording" if found.scenarios is msgspec.UNSET else "scenarios"


def _of_file(path: Path, run: ListedRun) -> ListedRun:
    if path.suffix != ".json":
        return summarize_recording(load_recording(path), run)
    data = read_regular(path)
    readers: dict[RunKind, Callable[[bytes, ListedRun], ListedRun]]
    readers = {"exploration": _of_exploration, "scenarios": _of_scenarios}
    reader = readers.get(kind_of(data))
    return summarize_recording(load_recording(path), run) if reader is None else reader(data, run)


def load_recording(path: Path) -> Document:
    """Return a recording without changing the disk.

    Raises:
        InputError: it cannot be read.
    """
    if path.suffix == ".json":
        return JsonFileStore(path).peek()
    from offbook.recording.stores.sqlite import SqliteStore  # noqa: PLC0415 - many folders have no database

    return SqliteStore(path).load()


def summarize_recording(document: Document, run: ListedRun) -> ListedRun:
    """Return the list's summary of a loaded recording."""
    exchanges = [exchange for _, exchange in document]
    calls = [each for each in exchanges if not place_of(each)]
    tools = [exchange for _, exchange in each_exchange(document.tools)]
    failed = sum(map(has_failed, calls)) + sum(each.error is not None for each in tools)
    models = dict.fromkeys(model for each in calls if (model := each.model))
    return replace(
        run,
        kind="recording",
        tone="plain",
        verdict=f"{failed:,} failed" if failed else "recorded",
        origin=shorten(", ".join(models) or str(document.meta.get("created_by", "")), MAX_ORIGIN_CHARS),
        count=len(exchanges) + len(tools),
        noun="call" if len(exchanges) + len(tools) == 1 else "calls",
        tokens=sum(each.usage.total_tokens for each in calls if each.usage is not None),
        cost_usd=sum(each.cost_usd for each in calls),
        took_s=_span_s(
            [(each.recorded_at, each.latency_ms) for each in exchanges]
            + [(each.recorded_at, each.latency_ms) for each in tools]
        ),
    )


def place_of(exchange: Exchange) -> str:
    """Return the method and path of an exchange other than a model call, like `GET /v1/models`, or "".

    Only such requests are decoded, because model requests are long and many.
    """
    is_plain = exchange.wire is not None and exchange.wire.protocol in (PLAIN_HTTP, WEBSOCKET)
    return exchange.http_place() if is_plain else ""


def has_failed(exchange: Exchange) -> bool:
    """Return whether a call got an error instead of an answer."""
    return exchange.fault is not None or (exchange.wire is not None and exchange.wire.status >= 400)


def _span_s(times: list[tuple[str | None, float]]) -> float:
    ends = [(end_ms(at), latency_ms) for at, latency_ms in times if at]
    known = [(end, latency) for end, latency in ends if end is not None]
    if not known:
        return sum(latency_ms for _, latency_ms in times) / 1000.0
    return (max(end for end, _ in known) - min(end - latency for end, latency in known)) / 1000.0


def end_ms(recorded_at: str) -> float | None:
    """Return the time at which an exchange was recorded in ms, or None if it is invalid."""
    try:
        found = datetime.fromisoformat(recorded_at)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000.0


class _ExplorationHead(Struct):
    """The fields of an exploration that the list shows. Its cases, which are most of it, are skipped."""

    version: int
    subject: str
    findings: int = 0
    is_complete: bool = True
    tally: dict[str, int] = {}


def _of_exploration(data: bytes, run: ListedRun) -> ListedRun:
    head = decode(data, _ExplorationHead)
    cases = sum(head.tally.values())
    labels = {name for name, count in head.tally.items() if count}
    worst = [label for label in LABELS if label in labels]
    text = pluralize(head.findings, "finding") + (f", worst: {worst[0]}" if head.findings and worst else "")
    return replace(
        run,
        kind="exploration",
        verdict=text if head.is_complete else f"{text}; not complete",
        tone="bad" if head.findings else "good" if head.is_complete else "busy",
        origin=shorten(head.subject, MAX_ORIGIN_CHARS),
        count=cases,
        noun="case" if cases == 1 else "cases",
    )


class _ScenarioHead(Struct):
    name: str
    agent: str = ""
    source: str = ""
    passed: bool = False


class _SuiteHead(Struct):
    """The fields of a scenario run that the list shows. Its conversations are skipped."""

    version: int
    passed: bool
    is_complete: bool = True
    tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0
    scenarios: tuple[_ScenarioHead, ...] = ()


def _of_scenarios(data: bytes, run: ListedRun) -> ListedRun:
    head = decode(data, _SuiteHead)
    passed, total = sum(each.passed for each in head.scenarios), len(head.scenarios)
    text = f"{passed:,} of {pluralize(total, 'scenario')} passed"
    files = dict.fromkeys(each.source.rpartition(":")[0] or each.source for each in head.scenarios)
    agents = dict.fromkeys(each.agent for each in head.scenarios if each.agent)
    return replace(
        run,
        kind="scenarios",
        verdict=text if head.is_complete else f"{text}; not complete",
        tone=("good" if head.is_complete else "busy") if head.passed or passed == total else "bad",
        origin=shorten(" · ".join(filter(None, (", ".join(files), ", ".join(agents)))), MAX_ORIGIN_CHARS),
        count=total,
        noun="scenario" if total == 1 else "scenarios",
        tokens=head.tokens,
        cost_usd=head.cost_usd,
        took_s=head.latency_s,
    )
