"""The plugin's command-line options, the help of its markers, and the plan of each test: its mode and recording."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import pytest
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.pytest_plugin.markers import OffbookMarker, explore_marker_of, offbook_marker_of
from offbook.pytest_plugin.recordings import default_recording, resolve_recording
from offbook.recording.record_mode import RecordMode, timestamp
from offbook.recording.stores.locate import open_store

OFFBOOK = "offbook"
"""The name of the fixture and of its marker."""

EXPLORE = "explore"
"""The name of the marker of explored tests."""

RecordOption: TypeAlias = Literal["none", "once", "new", "all", "append", "fresh"]
OFFBOOK_MARKER_HELP = (
    "offbook(recording=None, strict=True, record=None, provider=None, unused='report'): how the fixture "
    "`offbook` records and replays. recording= is a file, relative to the folder of the test; strict=False answers "
    "unrecorded requests with a default; record= is a mode of --offbook-record; provider= names the vendor to record "
    "from; unused='error' fails a test that leaves entries of its recording unused."
)

EXPLORE_MARKER_HELP = (
    "explore(recording=None, faults='all', budget=None, declared=(), optional=(), fail_on=None, "
    "on_divergence='explore', default_response='Mock response', deadline_s=3600): replay the test, which uses the "
    "fixture `offbook`, with each fault at each site of its recording, one item for each case. It fails if the verdict "
    "is a finding, or one of fail_on. declared= are the errors that it may end with, as classes or names; optional= "
    "are steps and tools that it may go on without."
)


class PluginOptions(NamedTuple):
    """The options of the command line. `record` is None if it is not given."""

    record: RecordOption | None
    keep_failed: bool
    strict_unused: bool
    report_unused: bool


def add_options(parser: pytest.Parser) -> None:
    """Add the options to pytest."""
    group = parser.getgroup("offbook", "recorded and replayed models and tools")
    group.addoption(
        "--offbook-record",
        choices=get_args(RecordOption),
        help="none: replay, and refuse unrecorded requests (the default); once: record if there is no recording; "
        "new: record what is missing; all: record everything again; append: record everything after what is there; "
        "fresh: record everything again, and remove what is no longer requested",
    )
    flags = {
        "keep-failed": "keep the recordings of failed tests, too",
        "strict-unused": "fail a test that leaves entries of its recording unused",
        "report-unused": "list the recordings that no test used, if all tests of a folder ran",
    }
    for name, text in flags.items():
        group.addoption(f"--offbook-{name}", action="store_true", help=text)


def options_of(config: pytest.Config) -> PluginOptions:
    """Return the options of a run."""
    return PluginOptions(
        record=config.getoption("offbook_record"),
        keep_failed=config.getoption("offbook_keep_failed"),
        strict_unused=config.getoption("offbook_strict_unused"),
        report_unused=config.getoption("offbook_report_unused"),
    )


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
