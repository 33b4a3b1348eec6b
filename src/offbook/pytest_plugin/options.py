"""The plugin's command-line options and the help of its markers."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import pytest

RecordOption: TypeAlias = Literal["none", "once", "new", "all", "append", "fresh"]
OFFBOOK_MARKER_HELP = (
    "offbook(recording=None, strict=True, record=None, provider=None, unused='report'): how the fixture "
    "`offbook` records and replays. recording= is a file, relative to the test's folder; strict=False answers what "
    "it lacks with a default; record= is a mode as for --offbook-record; provider= names the vendor that is asked "
    "when recording; unused='error' fails a test that leaves entries of its recording unused."
)

EXPLORE_MARKER_HELP = (
    "explore(recording=None, faults='all', budget=None, declared=(), fail_on=None, on_divergence='stop', "
    "default_response='Mock response', deadline_s=3600): the test, which uses the fixture `offbook`, is replayed "
    "with each fault at each place of its recording, one item a case. It fails on a verdict that is a finding, or one "
    "of fail_on. declared= are the errors that it may end with, by class or name."
)


class PluginOptions(NamedTuple):
    """What the command line asks for. `record` is None where it says nothing."""

    record: RecordOption | None
    keep_failed: bool
    strict_unused: bool
    report_unused: bool


def add_options(parser: pytest.Parser) -> None:
    """Let pytest know the options."""
    group = parser.getgroup("offbook", "models and tools, recorded and replayed")
    group.addoption(
        "--offbook-record",
        choices=get_args(RecordOption),
        help="none: replay, and refuse what is not recorded (the default); once: record where there is no recording; "
        "new: record what is missing; all: record everything again; append: record everything, behind what is there; "
        "fresh: record everything again, and remove what is no longer asked",
    )
    flags = {
        "keep-failed": "keep what failed tests have recorded, too",
        "strict-unused": "fail a test that leaves entries of its recording unused",
        "report-unused": "list the recordings that no test used, if whole folders were run",
    }
    for name, told in flags.items():
        group.addoption(f"--offbook-{name}", action="store_true", help=told)


def options_of(config: pytest.Config) -> PluginOptions:
    """The options as given."""
    given = config.getoption
    return PluginOptions(
        given("offbook_record"),
        given("offbook_keep_failed"),
        given("offbook_strict_unused"),
        given("offbook_report_unused"),
    )
