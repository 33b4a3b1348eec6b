"""Declarations for patterns of tools hold for the tools of the recording that fit."""

import pytest

from offbook.errors import InputError
from offbook.explore.settings import ExploreSettings
from offbook.settings import ToolSettings
from tests.explore.runs import write_recording


@pytest.fixture
def recording(tmp_path):
    names = ("Orders-refund", "mcp__orders__refund", "look_up")
    calls = [{"id": name, "name": name, "arguments": {"order": 7}} for name in names]
    return write_recording(tmp_path / "run.json", {"any": {"content": "", "tool_calls": calls}})


def test_a_pattern_is_for_every_tool_that_fits(recording):
    settings = ExploreSettings(
        side_effects=("*refund",), idempotent=("*__refund:order",), tools={"look*": ToolSettings(read_only=True)}
    ).naming_tools(recording)
    assert settings.side_effects == ("Orders-refund", "mcp__orders__refund")
    assert settings.idempotent == ("mcp__orders__refund:order",)
    assert settings.tools == {"look_up": ToolSettings(read_only=True)}


def test_a_declaration_of_one_tool_counts_more_than_a_pattern(recording):
    own, all_of_them = ToolSettings(read_only=True), ToolSettings(effect=True)
    settings = ExploreSettings(tools={"look_up": own, "*": all_of_them}).naming_tools(recording)
    assert settings.tools["look_up"] == own
    assert settings.tools["Orders-refund"] == all_of_them


def test_a_pattern_that_no_tool_fits_is_refused_where_a_name_would_be(recording):
    settings = ExploreSettings(side_effects=("*refnd",)).naming_tools(recording)
    with pytest.raises(InputError, match=r"no tool '\*refnd'"):
        settings.check_tools(recording)
