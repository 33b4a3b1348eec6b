"""The agent under test, offline: run `pytest examples/mcp`; with `--offbook-record=fresh`, it is recorded again."""

import sys
from pathlib import Path

from support_agent import support

from offbook import MockProvider, Trajectory, assert_trajectory, expected
from offbook.pytest_plugin.fixture import Offbook

SERVER = [sys.executable, str(Path(__file__).with_name("issues_server.py"))]
MODEL = MockProvider(responses={"title": {"content": "Export is empty"}})  # in place of a real one
FILED = Trajectory("strict", [expected("issues.create_issue", args={"title": "Export is empty"})])


def test_a_report_is_filed(offbook: Offbook) -> None:
    offbook.live(MODEL)
    with offbook.mcp("issues", command=SERVER) as issues:
        said = offbook.run(support(offbook.provider, issues.config, "The exported file has no rows."))
    assert said == "Filed as #1."
    assert_trajectory(offbook.tool_calls, FILED)


def test_a_report_is_not_filed_again_when_the_answer_is_lost(offbook: Offbook) -> None:
    offbook.live(MODEL)
    offbook.faults("tool=issues.create_issue call=1: tool_lost")
    with offbook.mcp("issues", command=SERVER) as issues:
        said = offbook.run(support(offbook.provider, issues.config, "The exported file has no rows."))
    assert "may not have arrived" in said
    assert_trajectory(offbook.tool_calls, FILED)
