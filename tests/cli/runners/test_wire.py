"""Where the real APIs are: as the command is told, else as the environment says; and what is counted in the end."""

import pytest

from offbook.cli.runners.mcp_servers import McpServers
from offbook.cli.runners.wire import parse_upstreams
from offbook.errors import InputError
from offbook.recording.call_cache import CacheCounts
from offbook.wire.settings import WireArguments
from tests.servers import redis_server


def test_lines_come_before_the_environment_and_what_neither_reports_is_left_out():
    environment = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b", "GOOGLE_GEMINI_BASE_URL": ""}
    upstreams = parse_upstreams(["openai=http://c/v1?x=y"], environment)
    assert upstreams == {"openai": "http://c/v1?x=y", "anthropic": "http://b"}


@pytest.mark.parametrize("line", ["", "openai", "openai=", "=http://a"])
def test_a_line_that_names_no_vendor_or_no_address_is_refused(line):
    with pytest.raises(InputError, match="--upstream"):
        parse_upstreams([line], {})


def test_what_mcp_servers_have_used_of_a_shared_recording_counts_with_the_models(tmp_path):
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {"notes": {"command": "notes"}}}')
    shared = WireArguments(record=redis_server.shared().url(), record_mode="new", mcp=str(config))
    with McpServers(shared, {}) as servers:
        servers.hub.recorder.cache.note_hit()
        assert servers.cache_counts(CacheCounts(hits=2, misses=1)) == CacheCounts(hits=3, misses=1)
    with McpServers(WireArguments(record=str(tmp_path / "run.json"), mcp=str(config)), {}) as servers:
        assert servers.cache_counts(None) is None
