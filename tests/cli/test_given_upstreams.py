"""Where the real APIs are: as the command is told, else as the environment says."""

import pytest

from understudy.cli.given_upstreams import given_upstreams, upstream_keys
from understudy.errors import InputError


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("box", "http://box:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("https://ollama.example", "https://ollama.example"),
    ],
)
def test_an_ollama_host_is_read_as_ollama_reads_it(host, url):
    assert given_upstreams([], {"OLLAMA_HOST": host}) == {"ollama": url}


def test_lines_come_before_the_environment_and_what_neither_tells_is_left_out():
    environment = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b", "GOOGLE_GEMINI_BASE_URL": ""}
    told = given_upstreams(["openai=http://c/v1?x=y"], environment)
    assert told == {"openai": "http://c/v1?x=y", "anthropic": "http://b"}


@pytest.mark.parametrize("line", ["", "openai", "openai=", "=http://a"])
def test_a_line_that_names_no_vendor_or_no_address_is_refused(line):
    with pytest.raises(InputError, match="--upstream"):
        given_upstreams([line], {})


def test_keys_are_those_that_are_set_the_first_of_each_vendor():
    environment = {"GEMINI_API_KEY": "g1", "GOOGLE_API_KEY": "g2", "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "o"}
    assert upstream_keys(environment) == {"openai": "o", "google": "g2"}
