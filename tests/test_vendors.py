"""The one table of vendors: what the SDKs read, and that everything asks it."""

import contextlib
import os
import subprocess
import sys
from typing import get_args

import pytest

from offbook.errors import MalformedResponseError
from offbook.pipeline import live_provider
from offbook.providers.http import PROVIDERS
from offbook.recording.redact.redactor import SECRET_FIELDS
from offbook.vendors import (
    CODEC_NAMES,
    CODECS,
    KEY_HEADERS,
    PROVIDER_NAMES,
    SECRET_QUERY,
    VENDORS,
    MockableProviderName,
    ProviderName,
    VendorName,
    api_key_variables,
    base_url_variables,
    codec_of,
    keys_from_environment,
    plain_environment,
    tls_keys_from_environment,
    upstreams_from_environment,
)
from offbook.wire.proxy.upstream import Upstreams
from offbook.wire.request import route_of
from tests.fakes import user
from tests.servers.loopback import LoopbackServer


def test_every_codec_is_found_by_its_name():
    assert {name: codec.name for name, codec in CODECS.items()} == {name: name for name in CODECS}
    assert len(CODECS) == len(PROVIDER_NAMES)
    assert [vendor.codec.name for vendor in VENDORS.values()] == [
        "openai_chat",
        "anthropic",
        "gemini",
        "ollama",
        "bedrock",
        "openai_chat",
        "gemini",
    ]


@pytest.mark.parametrize("name", ["", "openai", "base"])
def test_an_unknown_protocol_is_a_key_error(name):
    assert name not in CODECS
    with pytest.raises(KeyError, match=repr(name)):
        codec_of(name)


def test_the_table_loads_no_codec():
    loaded = "import sys, offbook.vendors; print([name for name in sys.modules if name.startswith('offbook.codecs')])"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True) == "[]\n"


def test_the_declared_names_are_those_of_the_table():
    assert list(get_args(VendorName)) == list(VENDORS)
    assert list(get_args(ProviderName)) == list(CODEC_NAMES) == list(PROVIDERS)
    assert list(get_args(MockableProviderName)) == [*CODEC_NAMES, "mock"]


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_every_codec_sends_its_key_in_a_header_that_is_known_to_hold_one(vendor):
    for name in vendor.codecs.values():
        carriers = {
            header.lower() for header, value in codec_of(name).auth_headers("a-key").items() if "a-key" in value
        }
        assert carriers <= set(vendor.key_headers)
        assert len(carriers) == 1


def test_the_headers_of_all_vendors_are_redacted():
    assert {"authorization", "x-api-key", "x-goog-api-key", "api-key"} == KEY_HEADERS
    assert SECRET_FIELDS > KEY_HEADERS
    assert {"key", "api_key", "access_token", "api-key", "token", "sig", "password", "client_secret"} <= SECRET_QUERY


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("box", "http://box:11434"),
        ("box/", "http://box:11434"),
        ("box/below", "http://box:11434/below"),
        ("box:9000/below/", "http://box:9000/below"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("https://ollama.example", "https://ollama.example"),
    ],
)
def test_an_ollama_host_is_read_as_ollama_reads_it(host, url):
    assert upstreams_from_environment({"OLLAMA_HOST": host}) == {"ollama": url}


def test_an_address_that_is_not_set_is_left_out():
    environment = {"OPENAI_API_BASE": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b", "GOOGLE_GEMINI_BASE_URL": ""}
    assert upstreams_from_environment(environment) == {"openai": "http://a/v1", "anthropic": "http://b"}


def test_an_address_without_a_path_is_read_and_replaced_and_other_words_stay():
    environment = {"OPENAI_HOST": "https://models.test/", "ANTHROPIC_HOST": "azure", "HOME": "/nowhere"}
    assert upstreams_from_environment(environment) == {"openai": "https://models.test/v1"}
    assert upstreams_from_environment(environment | {"OPENAI_BASE_URL": "http://a/v1"}) == {"openai": "http://a/v1"}
    found = plain_environment(environment, "http://here", is_replayed=True)
    assert found["OPENAI_HOST"] == "http://here"
    assert found["ANTHROPIC_HOST"] == "azure"
    assert "GOOGLE_HOST" not in found


def test_the_first_variable_that_is_set_counts():
    keys = {"GEMINI_API_KEY": "g1", "GOOGLE_API_KEY": "g2", "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "o"}
    assert keys_from_environment(keys) == {"openai": "o", "google": "g2"}
    assert keys_from_environment({"GEMINI_API_KEY": "g1", "GOOGLE_API_KEY": ""}) == {"google": "g1"}
    addresses = {"OPENAI_API_BASE": "http://langchain", "OPENAI_BASE_URL": "http://sdk"}
    assert upstreams_from_environment(addresses) == {"openai": "http://sdk"}


def test_one_server_stands_for_all_vendors_in_every_variable_that_is_read():
    variables = base_url_variables("http://here")
    assert variables == {
        "OPENAI_BASE_URL": "http://here/v1",
        "OPENAI_API_BASE": "http://here/v1",
        "ANTHROPIC_BASE_URL": "http://here",
        "GOOGLE_GEMINI_BASE_URL": "http://here",
        "OLLAMA_HOST": "http://here",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://here",
        "ANTHROPIC_BEDROCK_BASE_URL": "http://here",
        "GOOGLE_VERTEX_BASE_URL": "http://here",
        "ANTHROPIC_VERTEX_BASE_URL": "http://here/v1",
        "OFFBOOK_URL": "http://here",
    }
    assert list(upstreams_from_environment(variables)) == [name for name in VENDORS if name != "azure"]


def test_dummy_keys_are_for_all_vendors_or_for_some_where_they_can_be_sent_without_tls():
    assert keys_from_environment(api_key_variables("k")) == dict.fromkeys(
        ("openai", "anthropic", "google", "ollama"), "k"
    )
    assert api_key_variables(vendors=["google"]) == {"GOOGLE_API_KEY": "offbook", "GEMINI_API_KEY": "offbook"}


@pytest.fixture
def home(tmp_path):
    """A home folder without settings for AWS."""
    return {"HOME": str(tmp_path), "AWS_CONFIG_FILE": str(tmp_path / "none")}


LOGIN = {"AWS_ACCESS_KEY_ID": "offbook", "AWS_SECRET_ACCESS_KEY": "offbook"}
REGION = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}


def test_a_replayed_program_can_sign_for_aws_without_a_login(home):
    assert plain_environment(home, "http://here", is_replayed=True) == LOGIN | REGION | home
    own = home | {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "too"}
    assert plain_environment(own, "http://here", is_replayed=True) == own | {"AWS_DEFAULT_REGION": "us-east-1"}
    assert plain_environment(home, "http://here", is_replayed=False) == home


@pytest.mark.parametrize("file", ["config", "credentials"])
def test_the_settings_of_aws_in_files_stay_in_force(home, tmp_path, file):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / file).write_text("[default]\n")
    environment = {"HOME": home["HOME"]}
    assert plain_environment(environment, "http://here", is_replayed=True) == environment


def test_a_key_that_boto3_sends_by_tls_alone_is_sent_by_the_proxy_instead(home):
    environment = home | {"AWS_BEARER_TOKEN_BEDROCK": "a-key"}
    assert tls_keys_from_environment(environment) == {"bedrock": "a-key"}
    assert plain_environment(environment, "http://here", is_replayed=False) == LOGIN | REGION | home


def test_the_variables_of_azure_are_set_only_where_a_program_has_chosen_it_by_them(home):
    chosen = home | {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com", "AZURE_OPENAI_API_KEY": "mine"}
    left = plain_environment(chosen, "http://here", is_replayed=False)
    assert left == chosen | {"AZURE_OPENAI_ENDPOINT": "http://here"}
    replayed = plain_environment(chosen, "http://here", is_replayed=True)
    assert replayed["AZURE_OPENAI_API_KEY"] == "offbook"
    assert replayed["OPENAI_API_VERSION"] == "2024-10-21"
    assert not any("AZURE" in name for name in plain_environment(home, "http://here", is_replayed=True))


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"GOOGLE_CLOUD_LOCATION": "europe-west4"}, "https://europe-west4-aiplatform.googleapis.com"),
        ({"CLOUD_ML_REGION": "global"}, "https://aiplatform.googleapis.com"),
        ({"ANTHROPIC_VERTEX_BASE_URL": "https://here/v1"}, "https://here"),
        ({"GOOGLE_VERTEX_BASE_URL": "https://there", "CLOUD_ML_REGION": "x"}, "https://there"),
    ],
)
def test_vertex_is_where_its_clients_find_it(environment, url):
    assert upstreams_from_environment(environment) == {"vertex": url}


def test_bedrock_is_in_the_region_that_the_environment_sets():
    address = {"bedrock": "https://bedrock-runtime.eu-west-1.amazonaws.com"}
    assert upstreams_from_environment({"AWS_DEFAULT_REGION": "eu-west-1"}) == address
    environment = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://here"}
    assert upstreams_from_environment(environment) == {"bedrock": "http://here"}


@pytest.mark.parametrize(
    ("provider", "variable", "client_path"),
    [
        ("openai", "OPENAI_BASE_URL", "/v1/chat/completions"),
        ("openai_responses", "OPENAI_API_BASE", "/v1/responses"),
        ("anthropic", "ANTHROPIC_BASE_URL", "/v1/messages"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "/v1beta/models/demo:generateContent"),
        ("ollama", "OLLAMA_HOST", "/api/chat"),
        ("bedrock", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "/model/demo/converse"),
        ("bedrock_anthropic", "ANTHROPIC_BEDROCK_BASE_URL", "/model/demo/invoke"),
    ],
)
async def test_a_run_asks_the_same_server_with_the_same_key_as_a_recording_proxy(
    provider, variable, client_path, monkeypatch
):
    """The proxy of `offbook exec --record` and the provider of `offbook run` read the environment alike."""
    for name in base_url_variables(""):
        monkeypatch.delenv(name, raising=False)
    for name in [name for vendor in VENDORS.values() for name in vendor.key_variables]:
        monkeypatch.setenv(name, f"the-{name}")
    with LoopbackServer() as server:
        root = "/v1" if provider.startswith("openai") else ""
        monkeypatch.setenv(variable, server.host if provider == "ollama" else server.url + root)
        async with live_provider(provider) as live:
            with contextlib.suppress(MalformedResponseError):
                await live.complete(user("Hi"), model="demo")
        (received,) = server.calls
        route = route_of("POST", client_path, {})
        upstreams = Upstreams(upstreams_from_environment(os.environ), keys=keys_from_environment(os.environ))
        assert server.url + received.path == upstreams.url(route, client_path, "")
        assert upstreams.auth(route).items() <= dict(received.headers).items()
