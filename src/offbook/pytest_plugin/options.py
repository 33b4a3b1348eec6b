"""The plugin's command-line options, and the names and the help of its markers."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import pytest

OFFBOOK = "offbook"
"""The name of the fixture and of its marker."""

EXPLORE = "explore"
"""The name of the marker of explored tests."""

RecordOption: TypeAlias = Literal["none", "once", "new", "all", "append", "fresh"]
OFFBOOK_MARKER_HELP = (
    "offbook(recording=None, strict=True, lenient_requests=False, record=None, provider=None, unused='report'): how "
    "the fixture `offbook` records and replays. recording= is a file, relative to the folder of the test; strict=False "
    "answers unrecorded requests with a default, lenient_requests=True those that the API would refuse; record= is "
    "a mode of --offbook-record; provider= names the vendor to record from; unused='error' fails a test that leaves "
    "entries of its recording unused."
)

EXPLORE_MARKER_HELP = (
    "explore(recording=None, faults='all', budget=None, declared=(), gave_up=None, optional=(), fail_on=None, "
    "on_divergence='explore', default_response='Mock response', deadline_s=3600, isolated=True, side_effects=(), "
    "read_only=(), idempotent=(), undoes=(), state=None, lenient_requests=False, exact=False): replay the test, "
    "which uses the fixture `offbook`, with each fault at each site of its recording, one item for each case. It fails "
    "if the verdict is a finding, or one of fail_on. declared= are the errors that it may end with, as classes or "
    "names; gave_up= a pattern or a function of the result that says whether it gave up; "
    "optional= are steps and tools that it may go on without; isolated=False runs it in the process of pytest; state= "
    "returns the state that a run has left, which is compared; lenient_requests=True answers what the API would "
    "refuse; exact=True answers equal requests alone."
)


class PluginOptions(NamedTuple):
    """The command-line options. `record` is None by default."""

    record: RecordOption | None
    keep_failed: bool
    strict_unused: bool
    report_unused: bool
    shard: str | None
    approve: bool


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
    group.addoption(
        "--offbook-shard",
        metavar="K/N",
        help="run one of N parts of the tests: 3/16. A hash of the node id selects the part, "
        "separately for each item of an explored test",
    )
    flags = {
        "keep-failed": "also keep the recordings of failed tests",
        "strict-unused": "fail a test that leaves entries of its recording unused, or is served one too often",
        "approve": "approve the tool calls of tests that pass and differ: each becomes a variant of the golden ones",
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
        shard=config.getoption("offbook_shard"),
        approve=config.getoption("offbook_approve"),
    )
