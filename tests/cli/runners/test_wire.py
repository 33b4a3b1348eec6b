"""Where the real APIs are: as the command is told, else as the environment says."""

import pytest

from offbook.cli.runners.wire import parse_upstreams
from offbook.errors import InputError


def test_lines_come_before_the_environment_and_what_neither_reports_is_left_out():
    environment = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b", "GOOGLE_GEMINI_BASE_URL": ""}
    upstreams = parse_upstreams(["openai=http://c/v1?x=y"], environment)
    assert upstreams == {"openai": "http://c/v1?x=y", "anthropic": "http://b"}


@pytest.mark.parametrize("line", ["", "openai", "openai=", "=http://a"])
def test_a_line_that_names_no_vendor_or_no_address_is_refused(line):
    with pytest.raises(InputError, match="--upstream"):
        parse_upstreams([line], {})
