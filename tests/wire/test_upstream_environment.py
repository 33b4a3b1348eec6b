"""Where the real APIs are by the environment."""

import pytest

from offbook.wire.upstream_environment import upstream_keys, upstreams_of


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
    assert upstreams_of({"OLLAMA_HOST": host}) == {"ollama": url}


def test_what_is_not_told_is_left_out():
    environment = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b", "GOOGLE_GEMINI_BASE_URL": ""}
    assert upstreams_of(environment) == {"openai": "http://a/v1", "anthropic": "http://b"}


def test_keys_are_those_that_are_set_the_first_of_each_vendor():
    environment = {"GEMINI_API_KEY": "g1", "GOOGLE_API_KEY": "g2", "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "o"}
    assert upstream_keys(environment) == {"openai": "o", "google": "g2"}
