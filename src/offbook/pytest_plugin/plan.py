"""How one test is recorded or replayed, from its markers and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.pytest_plugin.markers import OffbookMarker, explore_marker_of, offbook_marker_of
from offbook.pytest_plugin.options import RecordOption, options_of
from offbook.pytest_plugin.recordings import default_recording, resolve_recording
from offbook.recording.record_mode import RecordMode, timestamp
from offbook.recording.stores.locate import open_store

_STARTED_AT = pytest.StashKey[str]()


class RecordingPlan(Struct, frozen=True, kw_only=True):
    """Where the recording of a test is, and how it is recorded; it is replayed if `record` is None.

    `node_id` is the id of the test. `since` is a time before the first of all tests.
    """

    location: str
    node_id: str
    since: str
    record: RecordMode | None = None
    strict: bool = True
    provider: str | None = None
    is_unused_error: bool = False
    keeps_failed: bool = False


def recording_plan_of(item: pytest.Item) -> RecordingPlan:
    """Return the plan for a test. The command line overrides its marker.

    Raises:
        InputError: an argument of the marker is wrong, or `recording` is not a recording.
    """
    marker, explore_marker = offbook_marker_of(item), explore_marker_of(item)
    if explore_marker is not None:
        marker = replace(marker, recording=explore_marker.recording or marker.recording)
    name = _recording_name(item, is_explored=explore_marker is not None)
    return recording_plan(item, marker, default_recording(item.path, name))


def recording_plan(item: pytest.Item, marker: OffbookMarker, recording: Path) -> RecordingPlan:
    """Return the plan for a marker. `recording` is used if the marker does not name one."""
    options = options_of(item.config)
    location = resolve_recording(marker.recording, item.path.parent) if marker.recording else str(recording)
    return RecordingPlan(
        location=location,
        node_id=item.nodeid,
        since=_started_at(item.config),
        record=_record_mode(options.record or marker.record or "none", location),
        strict=marker.strict,
        provider=marker.provider,
        is_unused_error=options.strict_unused or marker.unused == "error",
        keeps_failed=options.keep_failed,
    )


def _record_mode(mode: RecordOption, location: str) -> RecordMode | None:
    """Return the mode to record with; None to replay, also for `once` if there was a recording before all tests."""
    if mode == "none" or (mode == "once" and open_store(location).exists()):
        return None
    return mode


def _recording_name(item: pytest.Item, *, is_explored: bool) -> str:
    """Return the name of a test with its classes. All cases of an explored test have the same."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return ".".join([*classes, item.name.partition("[")[0] if is_explored else item.name])


def _started_at(config: pytest.Config) -> str:
    """Return when this was first called: every test is planned before the first one runs."""
    return config.stash.setdefault(_STARTED_AT, timestamp(SYSTEM_CLOCK))
