"""Where calls go that only the real APIs can answer."""

import pytest

from offbook.errors import InputError
from offbook.wire.proxy.upstream import (
    Upstreams,
    client_response_headers,
    missing_key_advice,
    upstream_request_headers,
)
from offbook.wire.request import route_of
from offbook.wire.session import WireCall


def url_of(upstreams, method, path, query="", **headers):
    return upstreams.url(route_of(method, path, headers), path, query)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("/v1/messages", "https://api.anthropic.com/v1/messages"),
        (
            "/v1beta/models/gemini-2.5-pro:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent",
        ),
        ("/api/chat", "http://127.0.0.1:11434/api/chat"),
    ],
)
def test_calls_go_to_their_vendor(path, url):
    assert url_of(Upstreams(), "POST", path) == url


def test_an_address_means_what_it_means_to_the_sdks():
    upstreams = Upstreams({"openai": "https://proxy.example/openai/v1/", "anthropic": "http://localhost:1/a"})
    assert url_of(upstreams, "POST", "/v1/chat/completions") == "https://proxy.example/openai/v1/chat/completions"
    assert url_of(upstreams, "POST", "/v1/messages") == "http://localhost:1/a/v1/messages"


def test_the_query_and_the_spelling_of_the_path_are_kept():
    upstreams = Upstreams()
    assert url_of(upstreams, "GET", "/v1/models/a%2Fb", "limit=2") == "https://api.openai.com/v1/models/a%2Fb?limit=2"
    assert url_of(upstreams, "GET", "/v1") == "https://api.openai.com/v1"
    assert url_of(upstreams, "GET", "/v1x") == "https://api.openai.com/v1/v1x"


def test_no_path_leads_to_another_server():
    anthropic = {"anthropic-version": "1"}
    assert Upstreams().url(route_of("OPTIONS", "*", anthropic), "*", "") == "https://api.anthropic.com/*"
    assert Upstreams().url(route_of("GET", "/", anthropic), "@evil", "") == "https://api.anthropic.com/@evil"


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/../../../x", "/v1/..", "/../v1/models", "/v1/./models", "/v1/%2e%2e/x", "/v1/.%2E/x", "/v1%2f..%2fx"),
        *("/v1/..\\x", "/v1\\..\\x", "/v1/%5c..%5cx", "/v1/%252e%252e/x", "/v1/..;a=b/x", "/v1/%25252e%25252e%25252fx"),
        "/v1/" + "%25" * 3 + "2525252525252e",
    ],
)
def test_a_path_that_leads_out_of_the_api_is_refused(path):
    with pytest.raises(InputError, match="not sent upstream"):
        url_of(Upstreams({"openai": "https://proxy.example/openai/v1"}), "GET", path)


@pytest.mark.parametrize(
    "path", ["/v1/models/..a", "/v1/models/a..b", "/v1/files/100%25", "/v1//models", "/v1/%E4%B8%AD"]
)
def test_dots_and_percent_signs_within_a_name_are_fine(path):
    assert url_of(Upstreams(), "GET", path) == f"https://api.openai.com{path}"


def test_the_clients_key_goes_upstream_unless_there_is_one_of_our_own():
    route = route_of("POST", "/v1beta/models/m:generateContent", {})
    assert Upstreams().auth(route) is None
    ours = Upstreams(keys={"google": "ours"})
    assert ours.auth(route) == {"x-goog-api-key": "ours"}
    assert ours.url(route, "/v1beta/models/m:generateContent", "key=theirs&alt=sse").endswith("Content?alt=sse")
    assert ours.auth(route_of("POST", "/v1/chat/completions", {})) is None


def test_a_key_that_is_the_servers_own_never_goes_upstream():
    upstreams = Upstreams(keys={"openai": "ours"}, clients_use_own_key=True)
    assert upstreams.auth(route_of("POST", "/v1/responses", {})) == {"Authorization": "Bearer ours"}
    assert upstreams.auth(route_of("POST", "/api/chat", {})) == {}
    assert url_of(upstreams, "POST", "/v1beta/models/m:generateContent", "key=theirs").endswith(":generateContent")


@pytest.mark.parametrize(
    ("vendor", "status", "environment", "advised"),
    [
        ("openai", None, {}, "OPENAI_API_KEY"),
        ("anthropic", 401, {"OPENAI_API_KEY": "sk"}, "ANTHROPIC_API_KEY"),
        ("openai", 401, {"OPENAI_API_KEY": "sk-old"}, ""),
        ("openai", None, {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, ""),
        ("openai", 401, {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, "OPENAI_API_KEY"),
        ("ollama", None, {}, ""),
        ("unknown", 401, {}, ""),
    ],
)
def test_a_live_call_that_fails_without_a_key_names_the_variable_of_the_key(vendor, status, environment, advised):
    calls = [WireCall(1, "", vendor, "/", "recorded", status=status, failure="it failed")] * 2
    assert missing_key_advice([WireCall(1, "", vendor, "/", "recorded", status=200)], environment) == ""
    advice = missing_key_advice(calls, environment)
    assert advice == (f"recording makes live calls, and no key is set: export {advised}=…" if advised else "")


def test_servers_on_this_machine_are_known():
    upstreams = Upstreams({"openai": "http://localhost/v1", "google": "http://[::1]:7", "anthropic": "http://10.0.0.1"})
    assert [vendor for vendor in ("openai", "anthropic", "google", "ollama") if upstreams.is_loopback(vendor)] == [
        "openai",
        "google",
        "ollama",
    ]
    assert upstreams.address("google") == "http://[::1]:7"
    assert upstreams.vendor_at(7) == "google"
    assert upstreams.vendor_at(11434) == "ollama"
    assert upstreams.vendor_at(8) is None


def test_an_unknown_vendor_is_an_error_that_names_the_nearest():
    with pytest.raises(InputError, match="unknown vendor 'open_ai'") as caught:
        Upstreams({"open_ai": "http://localhost"})
    assert "did you mean 'openai'?" in caught.value.hint
    with pytest.raises(InputError, match="upstream_keys: unknown vendor 'gemini'"):
        Upstreams(keys={"gemini": "k"})


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://a", "http://", "http://a b", "http://a:0", "http://a:x"])
def test_an_address_that_names_no_server_is_an_error(url):
    with pytest.raises(InputError, match="upstreams: ollama: expected the URL of a server"):
        Upstreams({"ollama": url})


@pytest.mark.parametrize("url", ["http://a?key=secret", "http://a#secret", "http://me:secret@a"])
def test_an_address_with_secrets_is_an_error_that_does_not_repeat_them(url):
    with pytest.raises(InputError, match="without query") as caught:
        Upstreams({"openai": url})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["", " sec", "sec\nret", "séc"])
def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_repeat_it(key):
    with pytest.raises(InputError, match="upstream_keys: openai: expected printable") as caught:
        Upstreams(keys={"openai": key})
    assert not key.strip() or key.strip() not in str(caught.value)


KEYS = [
    (b"authorization", b"Bearer k"),
    (b"x-api-key", b"k"),
    (b"x-goog-api-key", b"k"),
    (b"api-key", b"k"),
]


def test_what_a_client_says_goes_upstream_twice_if_said_twice():
    said = [*KEYS, (b"Anthropic-Beta", b"a"), (b"anthropic-beta", b"b"), (b"x-stainless-retry-count", b"0")]
    assert upstream_request_headers(said) == [
        *KEYS,
        (b"anthropic-beta", b"a"),
        (b"anthropic-beta", b"b"),
        (b"x-stainless-retry-count", b"0"),
        (b"accept-encoding", b"identity"),
    ]


def test_what_concerns_this_connection_alone_or_us_does_not_go_upstream():
    said = [
        (b"host", b"127.0.0.1"),
        (b"content-length", b"3"),
        (b"accept-encoding", b"gzip"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"transfer-encoding", b"chunked"),
        (b"expect", b"100-continue"),
        (b"proxy-authorization", b"secret"),
        (b"x-offbook-step", b"plan"),
        (b"x-offbook-session", b"a"),
    ]
    assert upstream_request_headers(said) == [(b"accept-encoding", b"identity")]


def test_keys_of_our_own_replace_those_of_the_client():
    said = [*KEYS, (b"anthropic-version", b"2023-01-01"), (b"a", b"b")]
    auth = {"anthropic-version": "2024-01-01", "x-api-key": "ours"}
    assert upstream_request_headers(said, auth=auth) == [
        (b"anthropic-version", b"2023-01-01"),
        (b"a", b"b"),
        (b"x-api-key", b"ours"),
        (b"accept-encoding", b"identity"),
    ]


def test_upstreams_headers_come_back_without_those_of_its_connection():
    said = [
        (b"Content-Type", b"text/plain"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"connection", b"close"),
        (b"content-length", b"3"),
    ]
    assert client_response_headers(said, is_decompressed=False) == [
        (b"content-type", b"text/plain"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"content-length", b"3"),
    ]


def test_what_was_unpacked_has_another_length_and_no_encoding():
    said = [(b"content-encoding", b"gzip"), (b"content-length", b"3"), (b"etag", b"x")]
    assert client_response_headers(said, is_decompressed=True) == [(b"etag", b"x")]


def test_what_comes_in_chunks_has_no_length():
    said = [(b"Transfer-Encoding", b"chunked"), (b"content-length", b"3"), (b"content-encoding", b"br")]
    assert client_response_headers(said, is_decompressed=False) == [(b"content-encoding", b"br")]
