"""What a tool returns that has failed."""

import pytest

from offbook import InputError
from offbook.tools.failures import is_failed_result


@pytest.mark.parametrize(
    "result",
    [
        {"error": "no such order"},
        {"error": {"code": 5}, "order": 42},
        {"is_error": True, "text": "no"},
        {"order": 42, "ok": False},
        {"success": False},
        {"status": "error", "error_message": "no"},
        '{"error": "no such order"}',
        "Error: no such order",
        "Error executing tool refund: no such order",
        "An error occurred while running the tool. Please try again. Error: no such order",
        "ValueError: no such order",
        "botocore.exceptions.ClientError: An error occurred",
    ],
)
def test_the_shapes_of_errors_are_failures(result):
    assert is_failed_result(result)


@pytest.mark.parametrize(
    "result",
    [
        None,
        "",
        "paid",
        "Errors are rare.",
        "No error: paid",
        {"error": None, "paid": 42},
        {"paid": 42, "error": "none of them"},
        {"ok": True},
        [{"error": "x"}],
        "{not json",
        '["error"]',
    ],
)
def test_other_results_are_none(result):
    assert not is_failed_result(result)


def test_a_declared_pattern_tells_of_further_failures():
    assert is_failed_result("abgelehnt: 42", "^abgelehnt")
    assert is_failed_result({"antwort": "abgelehnt"}, "abgelehnt")
    assert not is_failed_result("bezahlt", "^abgelehnt")
    with pytest.raises(InputError, match="invalid pattern"):
        is_failed_result("bezahlt", "(")
