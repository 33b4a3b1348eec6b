"""A scenario run as JSON, read back from it, and as the HTML page that shows this JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from offbook.report.reporter import decode_report, encode_json, standalone_page
from offbook.report.scenarios.figures import Figures, figures_of
from offbook.scenarios.result import (
    AssertionOutcome,
    ConversationEnding,
    ConversationResult,
    ErrorGroup,
    Failure,
    Judgement,
    ScenarioResult,
    SuiteOrigin,
    SuiteResult,
    SuiteShard,
    TurnRecord,
)

VERSION = 1
S = TypeVar("S", bound=Struct)


class ConversationReport(Struct, frozen=True):
    """A conversation, as JSON."""

    id: str
    index: int
    passed: bool
    ending: ConversationEnding
    failures: tuple[Failure, ...]
    turns: tuple[TurnRecord, ...]
    assertions: tuple[AssertionOutcome, ...]
    judgements: tuple[Judgement, ...]
    tokens: int
    cost_usd: float
    latency_s: float


class ScenarioReport(Struct, frozen=True):
    """A scenario with one agent, as JSON."""

    name: str
    agent: str
    source: str
    passed: bool
    figures: Figures
    failures: tuple[Failure, ...]
    never_called: tuple[str, ...]
    conversations: tuple[ConversationReport, ...]


class SuiteReport(Struct, frozen=True, kw_only=True):
    """A run and its origin, as JSON. Only a shard has `shard`."""

    version: int
    passed: bool
    is_complete: bool
    origin: SuiteOrigin = SuiteOrigin()
    shard: SuiteShard | UnsetType = UNSET
    tokens: int
    cost_usd: float
    latency_s: float
    groups: tuple[ErrorGroup, ...]
    scenarios: tuple[ScenarioReport, ...]


def json_report(result: SuiteResult) -> bytes:
    """Return the run as indented JSON. Equal results give equal bytes."""
    return msgspec.json.format(compact_json(result), indent=2) + b"\n"


def compact_json(result: SuiteResult) -> bytes:
    """Return the run as JSON on one line."""
    shard = UNSET if result.shard is None else result.shard
    scenarios = tuple(map(_scenario, result.scenarios))
    return encode_json(_copied(SuiteReport, result, version=VERSION, shard=shard, scenarios=scenarios))


def _scenario(result: ScenarioResult) -> ScenarioReport:
    conversations = tuple(_copied(ConversationReport, each) for each in result.conversations)
    return _copied(ScenarioReport, result, figures=figures_of(result), conversations=conversations)


def _copied(kind: type[S], source: object, **others: object) -> S:
    """Return a value of another kind with the equally named fields of a value, except for `others`."""
    fields = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}
    return kind(**fields, **others)


def load_suite(data: bytes, *, source: str) -> SuiteResult:
    """Return the run in a JSON report.

    Raises:
        InputError: it cannot be read as one; names the file, the place in it and the reason.
    """
    hint = "write one with the reporter json=report.json"
    report = decode_report(data, SuiteReport, version=VERSION, source=source, hint=hint)
    shard = None if isinstance(report.shard, UnsetType) else report.shard
    scenarios = tuple(map(_read_scenario, report.scenarios))
    return SuiteResult(scenarios, report.latency_s, report.is_complete, report.groups, shard, report.origin)


def _read_scenario(report: ScenarioReport) -> ScenarioResult:
    whose = {"scenario": report.name, "agent": report.agent}
    conversations = tuple(_copied(ConversationResult, each, **whose) for each in report.conversations)
    return _copied(ScenarioResult, report, conversations=conversations)


def html_report(result: SuiteResult) -> bytes:
    """Return the run as a page. Its data is JSON, which the script shows as text, never as HTML."""
    return standalone_page("scenarios", compact_json(result))
