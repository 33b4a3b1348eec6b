"""Which headers go upstream, and which come back."""

from offbook.wire.upstream_headers import forwarded, returned

KEYS = [
    (b"authorization", b"Bearer k"),
    (b"x-api-key", b"k"),
    (b"x-goog-api-key", b"k"),
    (b"api-key", b"k"),
]


def test_what_a_client_says_goes_upstream_twice_if_said_twice():
    said = [*KEYS, (b"Anthropic-Beta", b"a"), (b"anthropic-beta", b"b"), (b"x-stainless-retry-count", b"0")]
    assert forwarded(said) == [
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
    assert forwarded(said) == [(b"accept-encoding", b"identity")]


def test_keys_of_our_own_replace_those_of_the_client():
    said = [*KEYS, (b"anthropic-version", b"2023-01-01"), (b"a", b"b")]
    auth = {"anthropic-version": "2024-01-01", "x-api-key": "ours"}
    assert forwarded(said, auth=auth) == [
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
    assert returned(said, is_unpacked=False) == [
        (b"content-type", b"text/plain"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"content-length", b"3"),
    ]


def test_what_was_unpacked_has_another_length_and_no_encoding():
    said = [(b"content-encoding", b"gzip"), (b"content-length", b"3"), (b"etag", b"x")]
    assert returned(said, is_unpacked=True) == [(b"etag", b"x")]


def test_what_comes_in_chunks_has_no_length():
    said = [(b"Transfer-Encoding", b"chunked"), (b"content-length", b"3"), (b"content-encoding", b"br")]
    assert returned(said, is_unpacked=False) == [(b"content-encoding", b"br")]
