"""The markers `offbook` and `explore`, and the plan of each test that follows from them: its mode and recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from offbook.decoding import convert
from offbook.errors import InputError
from offbook.explore.options import gave_up_by
from offbook.explore.schedule import parse_budget
from offbook.explore.settings import AgentSettings, ExploreArguments
from offbook.explore.state import check_state
from offbook.explore.verdict import FINDING_TITLES, parse_verdicts
from offbook.pytest_plugin.options import EXPLORE, OFFBOOK, RecordOption, options_of
from offbook.pytest_plugin.recordings import default_recording, resolve_recording
from offbook.recording.stores.locate import open_store
from offbook.recording.transaction import FoundExchanges
from offbook.session.recorder import RecordMode
from offbook.settings import TOOLS, ProjectFile, configured, configured_tools, find_project
from offbook.text import did_you_mean
from offbook.vendors import CODEC_NAMES

M = TypeVar("M", bound="OffbookMarker | ExploreMarker")


class OffbookMarker(Struct, frozen=True, kw_only=True):
    """The arguments of the markers `offbook` of a test. `recording` is relative to the folder of the test."""

    recording: str | None = None
    strict: bool = True
    lenient_requests: bool = False
    record: RecordOption | None = None
    provider: str | None = None
    unused: Literal["report", "error"] = "report"


class ExploreMarker(AgentSettings, frozen=True, kw_only=True):
    """The arguments of a test's `explore` markers. `recording` is relative to the folder of the test.

    `gave_up` may also be a function of the test's result; `state` is a function that returns the state after a run.
    Omitted arguments come from `[explore]` and `[tools.NAME]` of the config.
    """

    on_divergence: Literal["explore", "stop", "default"] = "explore"
    gave_up: Any = None
    recording: str | None = None
    faults: str | tuple[str, ...] = "all"
    budget: int | str | None = None
    fail_on: tuple[str, ...] = tuple(FINDING_TITLES)
    isolated: bool = True
    state: Any = None


MARKER_ARGUMENTS = [name for name in ExploreMarker.__struct_fields__ if name != TOOLS]


def offbook_marker_of(item: pytest.Item) -> OffbookMarker:
    """Return the arguments of the markers of a test, its class and its module. The nearest takes precedence.

    Raises:
        InputError: an argument is wrong; names the test.
    """
    marker = _read_marker(item, OFFBOOK, OffbookMarker)
    if marker.provider is not None and marker.provider not in CODEC_NAMES:
        hint = did_you_mean(marker.provider, CODEC_NAMES, kind="providers")
        raise _marker_error(item, OFFBOOK, f"provider: there is no {marker.provider!r}", hint=hint)
    return marker


def explore_marker_of(item: pytest.Item) -> ExploreMarker | None:
    """Return the arguments of the `explore` markers, with the config's additions, or None.

    Raises:
        InputError: an argument is wrong; names the test. Or the config is wrong; names the file.
    """
    if item.get_closest_marker(EXPLORE) is None:
        return None
    project = _project_of(item)
    values = configured(ExploreArguments, project)
    about_agent = {name: value for name, value in values.items() if name in AgentSettings.__struct_fields__}
    if about_agent.get("on_divergence") == "live":  # a test never calls a model
        del about_agent["on_divergence"]
    marker = replace(_read_marker(item, EXPLORE, ExploreMarker, about_agent), tools=configured_tools(project))
    checks: dict[str, Callable[[Any], object]] = {"gave_up": gave_up_by, "state": check_state, "budget": parse_budget}
    for name, check in checks.items():
        try:
            check(getattr(marker, name))
        except InputError as error:
            raise _marker_error(item, EXPLORE, f"{name}: {error.reason}", hint=error.hint) from None
    try:
        return replace(marker, fail_on=tuple(parse_verdicts(marker.fail_on, source=EXPLORE)))
    except InputError as error:
        raise _marker_error(item, EXPLORE, f"fail_on: {error.reason}", hint=error.hint) from None


def _project_of(item: pytest.Item) -> ProjectFile | None:
    """Return the config of a test with known keys, or None. It is read once for each folder.

    Raises:
        InputError: the config is wrong; names the file and the line.
    """
    projects, folder = item.config.stash.setdefault(_PROJECTS, {}), item.path.parent
    if folder not in projects:
        project = find_project(folder)
        if project is not None:
            from offbook.config.sections import check_project  # noqa: PLC0415 - most projects have no config

            check_project(project)
        projects[folder] = project
    return projects[folder]


def _read_marker(item: pytest.Item, name: str, kind: type[M], defaults: Mapping[str, object] = {}) -> M:
    given: dict[str, object] = dict(defaults)
    known = MARKER_ARGUMENTS if kind is ExploreMarker else kind.__struct_fields__
    for mark in reversed(list(item.iter_markers(name))):
        if mark.args:
            hint = f"name it: @pytest.mark.{name}(recording={mark.args[0]!r})"
            raise _marker_error(item, name, "it takes no positional arguments", hint=hint)
        given |= mark.kwargs
    for argument in given:
        if argument not in known:
            hint = did_you_mean(argument, known, kind="arguments")
            raise _marker_error(item, name, f"unknown argument {argument!r}", hint=hint)
    try:
        return convert({argument: _plain_value(argument, value) for argument, value in given.items()}, kind)
    except msgspec.ValidationError as error:
        reason, hint = _explain(error, given, kind)
        raise _marker_error(item, name, reason, hint=hint) from None


def _plain_value(argument: str, value: object) -> object:
    """Return a value prepared for validation: paths as str, error classes by name, a single item as a list."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    items = [value] if isinstance(value, str | type) else value
    if argument == "declared" and isinstance(items, list | tuple):
        return [each.__name__ if isinstance(each, type) else each for each in items]
    if argument in ("optional", "fail_on", "side_effects", "read_only", "idempotent", "undoes"):
        return items
    return value


def _explain(error: msgspec.ValidationError, given: Mapping[str, object], kind: type[Struct]) -> tuple[str, str]:
    """Return the problem and a hint with the allowed values, if they can be listed."""
    reason, _, place = str(error).partition(" - at `$.")
    argument = place.removesuffix("`").partition("[")[0]
    allowed = list(_literals(get_type_hints(kind)[argument]))
    hint = f"one of: {', '.join(allowed)}" if allowed else f"given: {given[argument]!r}"
    return f"{argument}: {reason[:1].lower()}{reason[1:]}", hint


def _literals(annotation: object) -> Iterator[str]:
    """Yield the values of the Literals in an annotation."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _literals(part)


def _marker_error(item: pytest.Item, name: str, reason: str, *, hint: str) -> InputError:
    return InputError(reason, source=item.nodeid, place=f"mark.{name}", hint=hint)


_PROJECTS = pytest.StashKey[dict[Path, ProjectFile | None]]()
_FOUND = pytest.StashKey[dict[str, FoundExchanges | None]]()


class RecordingPlan(Struct, frozen=True, kw_only=True):
    """The location of a test's recording and its record mode; `record` is None for a replay.

    `node_id` is the id of the test, which `is_explored` once it has a recording. `found` is the recording's content
    before the first test, or None if nothing is replaced. `approves` means that differing tool calls become golden
    ones. It `is_named` if the marker names the location.
    """

    location: str
    node_id: str
    found: FoundExchanges | None = None
    record: RecordMode | None = None
    strict: bool = True
    lenient_requests: bool = False
    provider: str | None = None
    is_unused_error: bool = False
    keeps_failed: bool = False
    approves: bool = False
    is_explored: bool = False
    is_named: bool = False


def recording_plan_of(item: pytest.Item) -> RecordingPlan:
    """Return the plan for a test. The command line overrides its marker.

    Raises:
        InputError: an argument of the marker is wrong, `recording` is not a recording, or the config is wrong.
    """
    _project_of(item)
    marker, explore_marker = offbook_marker_of(item), explore_marker_of(item)
    if explore_marker is not None:
        marker = replace(marker, recording=explore_marker.recording or marker.recording)
    name = _recording_name(item, is_explored=explore_marker is not None)
    plan = recording_plan(item, marker, default_recording(item.path, name))
    return replace(plan, is_explored=explore_marker is not None)


def recording_plan(item: pytest.Item, marker: OffbookMarker, recording: Path) -> RecordingPlan:
    """Return the plan for a marker. `recording` is used if the marker does not name one."""
    options = options_of(item.config)
    location = resolve_recording(marker.recording, item.path.parent) if marker.recording else str(recording)
    record = _record_mode(options.record or marker.record or "none", location)
    return RecordingPlan(
        location=location,
        node_id=item.nodeid,
        found=_found_in(item.config, location) if record in ("all", "fresh") else None,
        record=record,
        strict=marker.strict,
        lenient_requests=marker.lenient_requests,
        provider=marker.provider,
        is_unused_error=options.strict_unused or marker.unused == "error",
        keeps_failed=options.keep_failed,
        approves=options.approve,
        is_named=bool(marker.recording),
    )


def _record_mode(mode: RecordOption, location: str) -> RecordMode | None:
    """Return the record mode, or None to replay, also for `once` if a recording existed before all tests."""
    if mode == "none" or (mode == "once" and open_store(location).exists()):
        return None
    return mode


def _recording_name(item: pytest.Item, *, is_explored: bool) -> str:
    """Return the name of a test with its classes. All cases of an explored test share it."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return ".".join([*classes, item.name.partition("[")[0] if is_explored else item.name])


def _found_in(config: pytest.Config, location: str) -> FoundExchanges | None:
    """Return the recording's content at the first request for it: every test, also in pytest-xdist workers, is planned
    before the first one runs. None for a missing or unreadable recording, which its test reports.
    """
    store, found = open_store(location), config.stash.setdefault(_FOUND, {})
    if store.identity not in found:
        try:
            found[store.identity] = FoundExchanges(store) if store.exists() else None
        except InputError:
            found[store.identity] = None
    return found[store.identity]
