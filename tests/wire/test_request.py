"""What calls ask."""

import gzip
import zlib
from functools import partial

import brotli
import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.codecs.framing import MAX_UNPACKED_BYTES
from offbook.recording.match.fingerprint import NormaliseRules, fingerprint
from offbook.vendors import CODECS
from offbook.wire.request import (
    MAX_CACHED,
    MAX_CACHED_BYTES,
    HttpRequest,
    RequestParser,
    parse_request,
    route_of,
)
from tests.wire.http_requests import EVERY_PROTOCOL, call_of, http_call, parsed_of, request_of


def plain(method="GET", path="/v1/models", query="", body=b"", **headers):
    return HttpRequest(method, path, query, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def chat(body, query=""):
    return HttpRequest("POST", "/v1/chat/completions", query, {}, body)


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_model_has_the_fingerprint_that_its_request_has_within_a_process(protocol, stream):
    parsed = parsed_of(protocol, max_tokens=5, stream=stream)
    assert parsed.request_hash == fingerprint(request_of(max_tokens=5))
    assert orjson.loads(parsed.fields)["messages"] == [{"role": "user", "content": "Hi"}]
    assert parsed.is_streamed == stream
    assert parsed.model == "m"
    assert parsed.method == "POST"


@pytest.mark.parametrize("name", ["authorization", "x-stainless-retry-count", "user-agent", "anthropic-beta"])
def test_headers_are_no_part_of_what_is_asked(name):
    assert parse_request(call_of(headers={name: "3"})).request_hash == parsed_of().request_hash


def test_the_query_of_a_call_of_a_model_is_no_part_of_what_is_asked():
    call = call_of()
    versioned = chat(call.body, query="api-version=2024-10-21")
    assert parse_request(versioned).request_hash == parse_request(call).request_hash


def test_normalise_rules_apply_to_what_is_asked():
    rules = NormaliseRules(mask=(r"\d+",))
    first, second = (parse_request(call_of(text=f"It is {hour}"), rules) for hour in (9, 17))
    assert first.request_hash == second.request_hash
    assert first.fields != second.fields


@pytest.mark.parametrize(
    ("options", "wants_usage"),
    [
        ({"include_usage": True}, True),
        ({"include_usage": False}, False),
        ({"include_usage": 1}, False),
        ({}, False),
        (None, False),
        ("x", False),
    ],
)
def test_a_streaming_client_may_want_to_know_the_usage(options, wants_usage):
    body = orjson.loads(call_of(stream=True).body) | {"stream_options": options}
    assert parse_request(chat(orjson.dumps(body))).wants_usage is wants_usage


@pytest.mark.parametrize(("query", "is_array"), [("alt=sse", False), ("", True), ("alt=json", True)])
def test_gemini_streams_an_array_to_who_asks_for_no_events(query, is_array):
    body = call_of("gemini").body
    streamed = HttpRequest("POST", "/v1beta/models/m:streamGenerateContent", query, {}, body)
    assert parse_request(streamed).is_array is is_array
    assert not parse_request(HttpRequest("POST", "/v1beta/models/m:generateContent", query, {}, body)).is_array


BODY = call_of(text="Grüße " * 500).body


def zstd_frames(data):
    """Two frames that do not say how long they are, as programs that stream write them."""
    for part in (data[:100], data[100:]):
        packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        yield packer.compress(part) + packer.flush()


PACKED = {
    "gzip": gzip.compress(BODY),
    "x-gzip": gzip.compress(BODY),
    "deflate": zlib.compress(BODY),
    "br": brotli.compress(BODY),
    "zstd": zstandard.ZstdCompressor().compress(BODY),
    "ZSTD": b"".join(zstd_frames(BODY)),
    "gzip, zstd": zstandard.ZstdCompressor().compress(gzip.compress(BODY)),
}


def packed_call(encoding, body):
    return replace(call_of(), headers={"content-encoding": encoding}, body=body)


@pytest.mark.parametrize("encoding", PACKED)
def test_a_packed_body_is_the_request_that_it_is_unpacked(encoding):
    plain, packed = parse_request(replace(call_of(), body=BODY)), parse_request(packed_call(encoding, PACKED[encoding]))
    assert packed.request == plain.request
    assert packed.request_hash == plain.request_hash
    assert packed.fields == plain.fields


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_packed_body_that_is_cut_off_or_goes_on_with_something_else_says_so(encoding):
    whole = PACKED[encoding]
    for body in [*(whole[:end] for end in range(1, len(whole))), whole + b"and more"]:
        parsed = parse_request(packed_call(encoding, body))
        assert parsed.request is None
        assert "the body is" in parsed.problem
        assert "sha256" in parsed.body


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_body_that_unpacks_to_too_much_is_refused(encoding):
    pack = {
        "gzip": partial(gzip.compress, compresslevel=1),
        "br": partial(brotli.compress, quality=1),
        "zstd": zstandard.compress,
    }[encoding]
    parsed = parse_request(packed_call(encoding, pack(bytes(MAX_UNPACKED_BYTES + 1))))
    assert "more than 67,108,864 bytes" in parsed.problem


INVALID_BODIES = [b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"model": 5}', b'{"model": "m", "messages": 5}', b"\xff"]


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_request_that_its_protocol_does_not_allow_says_why(protocol):
    call = call_of(protocol)
    for body in INVALID_BODIES:
        if protocol == "bedrock_anthropic" and body.startswith(b"{") and body.endswith(b"}"):
            continue  # the same path takes the bodies of all models
        if protocol == "ollama_generate" and b'"m"' in body:
            continue  # without a prompt, it loads a model
        if protocol == "openai_responses" and body.startswith(b"{") and body != b'{"model": 5}' and body.endswith(b"}"):
            continue  # a prompt on the vendor's servers may hold everything
        parsed = parse_request(HttpRequest("POST", call.path, call.query, {}, body))
        assert parsed.request is None
        assert parsed.problem
        assert parsed.route.protocol == "http"
        assert parsed.route.operation == "generate"


@pytest.mark.parametrize("depth", [260, 300, 900, 1_000, 1_024, 1_100, 100_000])
def test_json_of_any_depth_is_read(depth):
    nested = b"[" * depth + b"]" * depth
    parsed = parse_request(chat(b'{"model": "m", "messages": [{"role": "user", "content": %b}]}' % nested))
    assert parsed.problem
    assert isinstance(parsed.body, str)
    other = parse_request(plain("POST", "/v1/embeddings", body=b'{"model": "m", "input": %b}' % nested))
    assert other.request_hash != parsed.request_hash


@given(st.binary(max_size=60), st.sampled_from(["/v1/chat/completions", "/v1/messages", "/v1/models", "/api/chat"]))
def test_whatever_comes_is_read(body, path):
    parsed = parse_request(plain("POST", path, body=body, content_type='multipart/x; boundary="a"'))
    assert len(parsed.request_hash) == 64


def test_the_body_of_a_plain_call_is_json_or_text_or_base64():
    assert parse_request(plain(body=b'{"b": 1, "a": 2}')).body == {"a": 2, "b": 1}
    assert parse_request(plain(body=b"{")).body == "{"
    assert parse_request(plain(body=b"\xff")).body == {"base64": "/w=="}
    assert parse_request(plain()).body is None


def test_json_that_is_laid_out_otherwise_asks_the_same():
    assert (
        parse_request(plain(body=b'{"b":1,"a":2}')).request_hash
        == parse_request(plain(body=b'{ "a": 2, "b": 1 }')).request_hash
    )


@pytest.mark.parametrize("other", [plain("HEAD"), plain(path="/v1/files"), plain(query="limit=2"), plain(body=b"1")])
def test_plain_calls_differ_by_method_path_query_and_body(other):
    assert parse_request(other).request_hash != parse_request(plain()).request_hash


@pytest.mark.parametrize("name", ["key", "KEY", "api_key", "access_token"])
def test_a_key_in_the_query_does_not_count_and_is_not_repeated(name):
    parsed = parse_request(plain(query=f"{name}=secret&limit=2"))
    assert parsed.request_hash == parse_request(plain(query="limit=2")).request_hash
    assert b"secret" not in parsed.fields
    assert "secret" not in parsed.place


def test_the_boundaries_of_an_upload_do_not_count():
    def upload(boundary):
        body = f"--{boundary}\r\n\r\nfile\r\n--{boundary}--".encode()
        return parse_request(
            plain("POST", "/v1/files", body=body, content_type=f'multipart/form-data; boundary="{boundary}"')
        )

    assert upload("abc").request_hash == upload("xyz").request_hash


def test_the_model_of_a_plain_call_is_the_one_in_its_body():
    assert parse_request(plain("POST", "/v1/embeddings", body=b'{"model": "e"}')).model == "e"
    assert parse_request(plain("POST", "/v1/embeddings", body=b'{"model": 5}')).model == ""
    assert parse_request(plain("POST", "/v1/embeddings", body=b"5")).model == ""


def test_a_reader_reads_an_equal_call_once_whoever_asks():
    parser = RequestParser()
    first = parser.parse(call_of(headers={"x-stainless-retry-count": "0"}))
    assert parser.parse(call_of(headers={"x-stainless-retry-count": "1"})) is first


@pytest.mark.parametrize(
    "other",
    [
        call_of(text="Ho"),
        http_call("openai_responses", request_of()),
        call_of(stream=True),
        HttpRequest("GET", "/chat/completions", "", {}, call_of().body),
    ],
)
def test_a_reader_takes_no_call_for_another(other):
    parser = RequestParser()
    first = parser.parse(call_of())
    assert parser.parse(other) == parse_request(other) != first


def test_a_reader_distinguishes_streams_of_events_and_of_arrays():
    parser, body = RequestParser(), call_of("gemini").body
    path = "/v1beta/models/m:streamGenerateContent"
    events, array = (parser.parse(HttpRequest("POST", path, query, {}, body)) for query in ("alt=sse", ""))
    assert not events.is_array
    assert array.is_array


@pytest.mark.parametrize(("calls", "size"), [(MAX_CACHED + 1, 1), (3, MAX_CACHED_BYTES // 2)])
def test_a_reader_forgets_when_it_has_read_much(calls, size):
    parser, body = RequestParser(), call_of(text="#" * size).body
    first = parser.parse(chat(body.replace(b"#", b"-1", 1)))
    for number in range(calls):
        parser.parse(chat(body.replace(b"#", b"%d" % number, 1)))
    again = parser.parse(chat(body.replace(b"#", b"-1", 1)))
    assert again is not first
    assert again == first


ANTHROPIC = {"anthropic-version": "2023-06-01"}
GOOGLE = {"x-goog-api-key": "k"}
GENERATED = {
    "openai_chat": (
        "/v1/chat/completions",
        "/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions",
        "/openai/v1/chat/completions",
        "/api/v1/chat/completions",
        "/v1beta/openai/chat/completions",
    ),
    "openai_responses": ("/v1/responses", "/responses", "/openai/responses", "/openai/v1/responses"),
    "anthropic": ("/v1/messages", "/messages", "/anthropic/v1/messages", "/api/v1/messages"),
    "gemini": (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
        "/v1/models/gemini-2.5-flash:generateContent",
        "/v1beta/tunedModels/mine:generateContent",
        "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:streamGenerateContent",
    ),
    "ollama": ("/api/chat",),
    "ollama_generate": ("/api/generate",),
    "openai_completions": ("/v1/completions", "/completions", "/openai/deployments/d/completions", "/beta/completions"),
}
POSTED = {
    ("openai", "embed"): ("/v1/embeddings", "/embeddings"),
    ("azure", "embed"): ("/openai/deployments/e/embeddings", "/openai/v1/embeddings"),
    ("vertex", "other"): ("/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",),
    ("bedrock", "other"): ("/model/m/count-tokens",),
    ("openai", "count_tokens"): ("/v1/responses/input_tokens", "/responses/input_tokens"),
    ("openai", "other"): ("/v1/threads/t/messages", "/v1/audio/speech", "/", ""),
    ("anthropic", "count_tokens"): ("/v1/messages/count_tokens", "/messages/count_tokens"),
    ("google", "embed"): ("/v1beta/models/e:embedContent", "/v1beta/models/e:batchEmbedContents"),
    ("google", "count_tokens"): ("/v1beta/models/g:countTokens",),
    ("google", "other"): ("/v1beta/files", "/upload/v1beta/files"),
    ("ollama", "embed"): ("/api/embed", "/api/embeddings"),
    ("ollama", "models"): ("/api/show",),
    ("ollama", "other"): ("/api/pull",),
}
GOT = {
    ("openai", "models"): ("/v1/models", "/models", "/v1/models/gpt-4o", "/v1/models/org/name", "/api/v1/models"),
    ("openai", "other"): ("/v1/chat/completions", "/v1/files", "/v1/responses/resp_1"),
    ("google", "models"): ("/v1beta/models", "/v1beta/models/gemini-2.5-flash"),
    ("ollama", "models"): ("/api/tags", "/api/ps", "/api/version"),
}


@pytest.mark.parametrize("protocol", GENERATED)
def test_a_model_is_called_at_every_path_that_clients_use(protocol):
    for path in GENERATED[protocol]:
        route = route_of("POST", path, {})
        assert route.operation == "generate", path
        assert route.protocol == protocol, path
        assert route.codec == CODECS[protocol], path
        assert route.any_codec is CODECS[protocol]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"model": "m", "prompt": ["One", "Two"]}),
        ("/v1/completions", {"model": "m", "prompt": [1, 2, 3]}),
        ("/v1/fim/completions", {"model": "m", "prompt": "One"}),
        ("/api/generate", {"model": "m"}),
        ("/api/generate", {"model": "m", "prompt": "", "keep_alive": 0}),
    ],
)
def test_what_is_not_one_prompt_is_plain_http(path, body):
    parsed = parse_request(plain("POST", path, body=orjson.dumps(body)))
    assert parsed.request is None
    assert parsed.route.protocol == "http"
    assert parsed.problem == ""


def test_what_a_prompt_is_continued_by_is_part_of_the_conversation():
    infill = {"model": "m", "prompt": "def f(", "suffix": "return 1"}
    parsed = parse_request(plain("POST", "/v1/completions", body=orjson.dumps(infill)))
    assert parsed.request.messages == ({"role": "user", "content": "def f(", "suffix": "return 1"},)
    memory = {"model": "m", "prompt": "And?", "system": "Be brief.", "context": [1, 2]}
    parsed = parse_request(plain("POST", "/api/generate", body=orjson.dumps(memory)))
    assert [message.get("context") for message in parsed.request.messages] == [None, [1, 2]]
    assert parsed.request.extra == {}


def test_other_endpoints_are_known_by_their_paths():
    for endpoint, paths in POSTED.items():
        for path in paths:
            route = route_of("POST", path, {})
            assert (route.vendor, route.operation, route.codec, route.protocol) == (*endpoint, None, "http"), path
    for endpoint, paths in GOT.items():
        for path in paths:
            route = route_of("GET", path, {})
            assert (route.vendor, route.operation) == endpoint, path


@pytest.mark.parametrize(
    ("headers", "vendor"),
    [({}, "openai"), (ANTHROPIC, "anthropic"), ({"anthropic-beta": "x"}, "anthropic"), (GOOGLE, "google")],
)
def test_a_path_that_several_vendors_have_is_distinguished_by_its_headers(headers, vendor):
    route = route_of("GET", "/v1/models", headers)
    assert route.vendor == vendor
    assert route.operation == "models"


def test_a_model_is_called_by_post_alone():
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "BREW", "post", ""):
        assert route_of(method, "/v1/chat/completions", {}).operation == "other"


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "google", "ollama"])
def test_errors_are_written_as_the_vendor_writes_them(vendor):
    path = {"openai": "/v1/x", "anthropic": "/v1/x", "google": "/v1beta/x", "ollama": "/api/x"}[vendor]
    error = route_of("GET", path, ANTHROPIC if vendor == "anthropic" else {}).any_codec.encode_error(404, "no")
    shapes = {
        "openai": lambda: error["error"]["message"],
        "anthropic": lambda: (error["type"] == "error") and error["error"]["message"],
        "google": lambda: (error["error"]["code"] == 404) and error["error"]["message"],
        "ollama": lambda: error["error"],
    }
    assert shapes[vendor]() == "no"


@pytest.mark.parametrize(
    ("retry_count", "attempt"),
    [
        ("0", 1),
        ("2", 3),
        (None, None),
        ("", None),
        ("-1", None),
        ("x", None),
        ("²", None),
        ("1.5", None),
        ("9" * 6, None),
    ],
)
def test_a_client_may_send_the_number_of_its_attempt(retry_count, attempt):
    headers = {} if retry_count is None else {"x-stainless-retry-count": retry_count}
    assert HttpRequest("POST", "/", "", headers, b"").attempt == attempt
