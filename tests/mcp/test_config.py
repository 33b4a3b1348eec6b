"""The configs of clients: what is read, what is refused, and the config that leads to us."""

import os
import stat

import pytest

from offbook import InputError
from offbook.mcp.config import load_config, parse_config, write_config

STDIO = {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "secret"}, "timeout": 5}
HTTP = {"type": "http", "url": "${HOST:-http://127.0.0.1:1}/mcp", "headers": {"Authorization": "Bearer x"}}
CONFIG = {"mcpServers": {"notes": STDIO, "web": HTTP}, "other": 1}


def leading(*, is_live):
    config = parse_config(CONFIG, source=".mcp.json")
    return config.leading_to(join={"notes": "JOIN"}, urls={"web": "URL"}, is_live=is_live)


def test_a_config_that_leads_to_us_has_the_same_shape():
    document = leading(is_live=True)
    assert document.keys() == CONFIG.keys()
    notes, web = document["mcpServers"].values()
    assert notes["args"][-3:] == ["npx", "-y", "server"]
    assert notes["env"] == {"TOKEN": "secret", "OFFBOOK_MCP_JOIN": "JOIN"}
    assert notes["timeout"] == 5
    assert web == HTTP | {"url": "URL"}


def test_a_replay_needs_neither_keys_nor_commands():
    notes, web = leading(is_live=False)["mcpServers"].values()
    assert "npx" not in notes["args"]
    assert notes["env"] == {"OFFBOOK_MCP_JOIN": "JOIN"}
    assert web == {"type": "http", "url": "URL"}


def test_a_written_config_is_read_by_its_owner_alone(tmp_path):
    write_config(CONFIG, tmp_path / "mcp.json")
    assert stat.S_IMODE((tmp_path / "mcp.json").stat().st_mode) == 0o600
    assert [server.name for server in load_config(tmp_path / "mcp.json").servers] == ["notes", "web"]


def test_variables_in_a_url_are_those_of_the_environment():
    server = parse_config(CONFIG, source="").servers[1]
    assert server.url({}) == "http://127.0.0.1:1/mcp"
    assert server.url({"HOST": "https://host"}) == "https://host/mcp"
    with pytest.raises(InputError, match="expected the URL"):
        server.url({"HOST": "nonsense"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "ends in the middle"),
        ("[]", "no mcpServers"),
        ('{"mcpServers": {}}', "expected an object with a server"),
        ('{"mcpServers": {"a": 1}}', "mcpServers.a: expected an object"),
        ('{"mcpServers": {"a": {}}}', "mcpServers.a: neither a command nor a url"),
        ('{"mcpServer": {"a": {"command": "x"}}}', r"mcpServer: no mcpServers\n.*did you mean 'mcpServers'"),
        ('{"mcpServers": {"a": {"comand": "x"}}}', r"mcpServers.a.comand: unknown key\n.*did you mean 'command'"),
        ('{"mcpServers": {"a": {"command": "x", "arg": []}}}', r"mcpServers.a.arg: unknown key\n.*mean 'args'"),
        ('{"mcpServers": {"a": {"URL": "http://x"}}}', r"mcpServers.a.URL: unknown key\n.*did you mean 'url'"),
        ('{"mcpServers": {"a": {"url": "http://x", "header": {}}}}', r"mcpServers.a.header: .*\n.*mean 'headers'"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "mcpServers.a.args: expected a list"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}', "mcpServers.a.env: expected an object"),
        ('{"mcpServers": {"a": {"type": "ws", "url": "http://x"}}}', "the type 'ws' is not supported"),
    ],
)
def test_a_config_of_another_shape_is_refused_with_its_place(tmp_path, text, reason):
    (tmp_path / "mcp.json").write_text(text)
    with pytest.raises(InputError, match=reason) as refused:
        load_config(tmp_path / "mcp.json")
    assert str(tmp_path) in str(refused.value)


CLIENT_KEYS = """
    timeout disabled alwaysAllow autoApprove cwd envFile env_vars description trust includeTools oauth enabled tools
    httpUrl serverUrl startup_timeout_sec http_headers headersHelper env_http_headers dev version comment id uri inputs
"""


@pytest.mark.parametrize("needed", [{"command": "npx"}, {"url": "http://x/mcp"}])
@pytest.mark.parametrize("key", CLIENT_KEYS.split())
def test_what_clients_write_for_themselves_stays_as_it_is(needed, key):
    config = parse_config({"mcpServers": {"a": needed | {key: "theirs"}}}, source="")
    assert config.servers[0].fields[key] == "theirs"


def test_a_config_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        load_config(tmp_path / "none.json")


def test_a_pipe_is_no_config_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match=r"pipe\.json is a named pipe"):
        load_config(tmp_path / "pipe.json")
