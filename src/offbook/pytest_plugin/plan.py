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


class RecordingPlan(Struct, frozen=True):
    """Where the recording is and what becomes of it: replayed if `record` is None.

    `node_id` is the test's. `since` is a moment before the first of all tests.
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
    """The plan for a test. What the command line says goes before its marker.

    Raises:
        InputError: the marker says something that cannot be, or names no recording.
    """
    said, explored = offbook_marker_of(item), explore_marker_of(item)
    if explored is not None:
        said = replace(said, recording=explored.recording or said.recording)
    return recording_plan(
        item, said, default_recording(item.path, _recording_name(item, is_explored=explored is not None))
    )


def recording_plan(item: pytest.Item, said: OffbookMarker, recording: Path) -> RecordingPlan:
    """The plan for what a marker says, with `recording` where it names none."""
    options = options_of(item.config)
    location = resolve_recording(said.recording, item.path.parent) if said.recording else str(recording)
    return RecordingPlan(
        location,
        item.nodeid,
        _started_at(item.config),
        _record_mode(options.record or said.record or "none", location),
        said.strict,
        said.provider,
        options.strict_unused or said.unused == "error",
        options.keep_failed,
    )


def _record_mode(mode: RecordOption, location: str) -> RecordMode | None:
    """The mode to record by; None to replay, and so does `once` where there was a recording before the first test."""
    if mode == "none" or (mode == "once" and open_store(location).exists()):
        return None
    return mode


def _recording_name(item: pytest.Item, *, is_explored: bool) -> str:
    """The name of a test with the classes that it is in; if it is explored, the same for all its cases."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return ".".join([*classes, item.name.partition("[")[0] if is_explored else item.name])


def _started_at(config: pytest.Config) -> str:
    """When this was first asked for: every test is planned before the first of them runs."""
    return config.stash.setdefault(_STARTED_AT, timestamp(SYSTEM_CLOCK))
