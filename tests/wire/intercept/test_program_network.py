"""What a program is given: variables that every runtime reads, certificates beside the system's, and no key."""

import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from offbook.errors import InputError
from offbook.installed import install_hint
from offbook.wire.intercept.interception import Authority, InterceptedHosts, Interception
from offbook.wire.intercept.program_network import BUNDLE_VARIABLES, ProxyEnvironment
from tests.wire.intercept.conftest import intercepting

URL = "http://127.0.0.1:8000"


@pytest.fixture
def given():
    """The variables of a program in this environment, and the folder of its files."""
    opened = []

    def given(environment=None, own=None, **options):
        interception = Interception(InterceptedHosts(), **options)
        opened.append(ProxyEnvironment(interception, environment or {}))
        return interception, opened[-1].variables(own or {}, URL)

    yield given
    for each in opened:
        each.close()


def roots(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(path)
    return set(context.get_ca_certs(binary_form=True))


def test_the_bundle_has_the_roots_of_the_system_and_the_authority(given):
    interception, variables = given()
    (path,) = {variables[name] for name in BUNDLE_VARIABLES}
    own = ssl.PEM_cert_to_DER_cert(interception.authority.pem.decode())
    assert roots(path) >= roots(ssl.get_default_verify_paths().cafile) | {own}


def test_the_certificates_that_a_user_names_are_kept(given, tmp_path):
    mine = tmp_path / "mine.pem"
    trustme.CA().cert_pem.write_to_path(mine)
    _, variables = given({"REQUESTS_CA_BUNDLE": str(mine), "NODE_EXTRA_CA_CERTS": str(mine)})
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"):
        assert roots(variables[name]) >= roots(mine)


def test_no_key_is_among_the_files_and_they_are_removed(given):
    interception = Interception(InterceptedHosts())
    environment = ProxyEnvironment(interception, {})
    folder = Path(environment.variables({}, URL)["SSL_CERT_FILE"]).parent
    interception.authority.context_for("api.openai.com")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not [file for file in folder.iterdir() if b"PRIVATE KEY" in file.read_bytes()]
    environment.close()
    assert not folder.exists()


def test_base_urls_of_intercepted_vendors_are_left_to_the_program(given):
    own = {"OPENAI_BASE_URL": f"{URL}/v1", "OLLAMA_HOST": URL, "OFFBOOK_URL": URL, "OPENAI_API_KEY": "offbook"}
    _, variables = given(own=own)
    assert "OPENAI_BASE_URL" not in variables
    assert variables["OLLAMA_HOST"] == variables["OFFBOOK_URL"] == URL
    _, variables = given({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, own)
    assert variables["OPENAI_BASE_URL"] == f"{URL}/v1"


def test_java_options_of_a_user_are_kept(given):
    _, variables = given({"JAVA_TOOL_OPTIONS": "-Xmx1g"})
    assert variables["JAVA_TOOL_OPTIONS"].startswith("-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8000 ")


def test_two_runs_have_authorities_of_their_own():
    first, second = Authority(), Authority()
    assert first.pem != second.pem
    assert first.context_for("a.test") is first.context_for("a.test")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(InputError, match="trustme") as raised:
        Authority()
    assert raised.value.hint == install_hint("intercept")


@pytest.mark.parametrize(
    "host", ["", "*", "*.*", "http://a", "a b", "a/b", "a:b", "a=", "a=b", "a=ftp://b", "a=http://b/c", "a=http://u@b"]
)
def test_what_is_no_host_is_refused(host):
    with pytest.raises(InputError):
        InterceptedHosts([host])


def test_hosts_of_the_environment_are_intercepted_but_not_this_machine():
    environment = {"OPENAI_BASE_URL": "https://gateway.corp:8443/v1", "OLLAMA_HOST": "localhost:1"}
    hosts = InterceptedHosts(["*.example.org"], environment=environment)
    known = ["gateway.corp", "api.openai.com", "europe-west1-aiplatform.googleapis.com", "a.b.example.org"]
    assert all(hosts.matches(host, 443) for host in known)
    assert not any(
        hosts.matches(host, 443) for host in ["example.org", "localhost", "openai.com", "api.openai.com.evil"]
    )


CLIENT = """
import os, socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(b"CONNECT api.openai.com:443 HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n")
print(client.recv(100).split()[1].decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows whose connection it is")
def test_a_client_without_credentials_is_known_by_its_process_alone():
    with intercepting() as (server, interception):
        port = server.url.rpartition(":")[2]

        def status_for(environment):
            command = [sys.executable, "-S", "-c", CLIENT, port]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
            return done.stdout.strip()

        proxy = f"http://offbook:{interception.token}@127.0.0.1:{port}"
        assert status_for({"HTTPS_PROXY": proxy}) == "200"
        assert status_for({"HTTPS_PROXY": proxy.replace(interception.token, "another")}) == "407"
        assert status_for({}) == "407"


def test_a_block_without_interception_signs_nothing():
    interception = Interception(None, blocks_network=True)
    environment = ProxyEnvironment(interception, {})
    variables = environment.variables({"OPENAI_BASE_URL": URL}, URL)
    environment.close()
    assert interception.authority is None
    assert variables["OPENAI_BASE_URL"] == URL
    assert "SSL_CERT_FILE" not in variables
