"""An outcome tells a model what it can act on."""

import pytest

from offbook.errors import ToolFaultError, ToolResolutionError
from offbook.messages import ToolCall
from offbook.tools import ToolOutcome


class NotFoundError(ToolResolutionError):
    pass


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("something went wrong"), "[ToolError] ValueError: something went wrong"),
        (KeyError("city"), "[ToolError] KeyError: 'city'"),
        (ToolFaultError("the station is down", tool="t"), "[ToolError] ToolFaultError: the station is down"),
        (ToolResolutionError("no such order"), "[ToolResolutionError] no such order"),
        (NotFoundError("no such order"), "[ToolResolutionError] no such order"),
        (MuteError(), "[ToolError] MuteError: <MuteError that cannot be shown>"),
        (TimeoutError(), "[ToolError] TimeoutError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_this_text(error, text):
    call = ToolCall("t")
    assert ToolOutcome.of_error(call, error) == ToolOutcome(call, None, error, text)


def test_a_value_is_kept_beside_its_text():
    call = ToolCall("t")
    assert ToolOutcome.of_value(call, {"a": 1}) == ToolOutcome(call, {"a": 1}, None, '{"a":1}')
