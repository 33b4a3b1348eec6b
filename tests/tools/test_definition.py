"""A tool is its spec and its function, and refuses what could only fail later."""

import pytest

from offbook.errors import InputError, ToolArgumentsError
from offbook.tools import ToolDef, ToolSpec

SPEC = ToolSpec("find", parameters={"type": "object", "required": ["city"]})


def test_a_tool_has_the_name_of_its_spec_and_no_rules_unless_given():
    tool = ToolDef(spec=SPEC, callable=print)
    assert tool.name == "find"
    assert (tool.prerequisites, tool.timeout_s, tool.side_effect, tool.repeatable) == ((), None, False, False)


def test_arguments_are_bound_as_they_came_if_they_fit():
    args = {"city": "Oslo"}
    assert ToolDef(SPEC, print).bind(args) is args
    with pytest.raises(ToolArgumentsError, match="city: missing"):
        ToolDef(SPEC, print).bind({})


def test_what_cannot_be_called_is_refused():
    with pytest.raises(InputError, match=r"^find: callable: expected a function, got 'print'$"):
        ToolDef(SPEC, "print")


@pytest.mark.parametrize("timeout_s", [0, -1.5, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout_s):
    with pytest.raises(InputError, match=r"^find: timeout_s: expected more than 0, got "):
        ToolDef(SPEC, print, timeout_s=timeout_s)
