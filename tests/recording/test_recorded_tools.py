"""Which tools a recording asks for, by calls or in texts."""

import pytest

from offbook.recording.recorded_tools import RecordedTools
from tests.explore.runs import write_recording


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("Thought: I refund.\nAction: refund[7]", ("refund",)),
        ('Thought: I refund.\nAction: refund\nAction Input: {"order": 7}', ("refund",)),
        ("**Action:** refund(7)", ("refund",)),
        ("[[ ## next_tool_name ## ]]\nrefund\n\n[[ ## next_tool_args ## ]]\n{}", ("refund",)),
        ("[[ ## next_tool_name ## ]]\nfinish", ()),
        ("Action: refund the order, and call the customer.", ()),
        ("The next action: refund(7)", ()),
    ],
)
def test_tools_that_a_text_asks_for_are_called(tmp_path, text, tools):
    assert RecordedTools(write_recording(tmp_path / "run.json", {"any": {"content": text}})).called == tools
