"""What calls ask."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.recording.fingerprint import fingerprint
from offbook.recording.normalise import NormaliseRules
from offbook.wire.asked import MAX_KEPT, MAX_KEPT_BYTES, Reader, read_call
from offbook.wire.http_call import HttpCall
from tests.wire.calls import PROTOCOLS, asked_of, call_of, http_call, request_of


def plain(method="GET", path="/v1/models", query="", body=b"", **headers):
    return HttpCall(method, path, query, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def chat(body, query=""):
    return HttpCall("POST", "/v1/chat/completions", query, {}, body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_model_has_the_fingerprint_that_its_request_has_within_a_process(protocol, stream):
    asked = asked_of(protocol, max_tokens=5, stream=stream)
    assert asked.request_hash == fingerprint(request_of(max_tokens=5))
    assert orjson.loads(asked.fields)["messages"] == [{"role": "user", "content": "Hi"}]
    assert (asked.is_streamed, asked.model, asked.method) == (stream, "m", "POST")


@pytest.mark.parametrize("name", ["authorization", "x-stainless-retry-count", "user-agent", "anthropic-beta"])
def test_headers_are_no_part_of_what_is_asked(name):
    assert read_call(call_of(headers={name: "3"})).request_hash == asked_of().request_hash


def test_the_query_of_a_call_of_a_model_is_no_part_of_what_is_asked():
    call = call_of()
    versioned = chat(call.body, query="api-version=2024-10-21")
    assert read_call(versioned).request_hash == read_call(call).request_hash


def test_normalise_rules_apply_to_what_is_asked():
    rules = NormaliseRules(mask=(r"\d+",))
    first, second = (read_call(call_of(text=f"It is {hour}"), rules) for hour in (9, 17))
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
    assert read_call(chat(orjson.dumps(body))).wants_usage is wants_usage


@pytest.mark.parametrize(("query", "is_array"), [("alt=sse", False), ("", True), ("alt=json", True)])
def test_gemini_streams_an_array_to_who_asks_for_no_events(query, is_array):
    body = call_of("gemini").body
    streamed = HttpCall("POST", "/v1beta/models/m:streamGenerateContent", query, {}, body)
    assert read_call(streamed).is_array is is_array
    assert not read_call(HttpCall("POST", "/v1beta/models/m:generateContent", query, {}, body)).is_array


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"model": 5}', b'{"model": "m", "messages": 5}', b"\xff"]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_that_its_protocol_does_not_take_says_why(protocol, body):
    call = call_of(protocol)
    asked = read_call(HttpCall("POST", call.path, call.query, {}, body))
    assert asked.request is None
    assert asked.problem
    assert asked.route.protocol == "http"
    assert asked.route.operation == "generate"


@pytest.mark.parametrize("depth", [260, 300, 900, 1_000, 1_024, 1_100, 100_000])
def test_json_of_any_depth_is_read(depth):
    nested = b"[" * depth + b"]" * depth
    asked = read_call(chat(b'{"model": "m", "messages": [{"role": "user", "content": %b}]}' % nested))
    assert asked.problem
    assert isinstance(asked.body, str)
    other = read_call(plain("POST", "/v1/embeddings", body=b'{"model": "m", "input": %b}' % nested))
    assert other.request_hash != asked.request_hash


@given(st.binary(max_size=60), st.sampled_from(["/v1/chat/completions", "/v1/messages", "/v1/models", "/api/chat"]))
def test_whatever_comes_is_read(body, path):
    asked = read_call(plain("POST", path, body=body, content_type='multipart/x; boundary="a"'))
    assert len(asked.request_hash) == 64


def test_the_body_of_a_plain_call_is_json_or_text_or_base64():
    assert read_call(plain(body=b'{"b": 1, "a": 2}')).body == {"a": 2, "b": 1}
    assert read_call(plain(body=b"{")).body == "{"
    assert read_call(plain(body=b"\xff")).body == {"base64": "/w=="}
    assert read_call(plain()).body is None


def test_json_that_is_laid_out_otherwise_asks_the_same():
    assert (
        read_call(plain(body=b'{"b":1,"a":2}')).request_hash
        == read_call(plain(body=b'{ "a": 2, "b": 1 }')).request_hash
    )


@pytest.mark.parametrize("other", [plain("HEAD"), plain(path="/v1/files"), plain(query="limit=2"), plain(body=b"1")])
def test_plain_calls_differ_by_method_path_query_and_body(other):
    assert read_call(other).request_hash != read_call(plain()).request_hash


@pytest.mark.parametrize("name", ["key", "KEY", "api_key", "access_token"])
def test_a_key_in_the_query_does_not_count_and_is_not_told(name):
    asked = read_call(plain(query=f"{name}=secret&limit=2"))
    assert asked.request_hash == read_call(plain(query="limit=2")).request_hash
    assert b"secret" not in asked.fields
    assert "secret" not in asked.place


def test_the_boundaries_of_an_upload_do_not_count():
    def upload(boundary):
        body = f"--{boundary}\r\n\r\nfile\r\n--{boundary}--".encode()
        return read_call(
            plain("POST", "/v1/files", body=body, content_type=f'multipart/form-data; boundary="{boundary}"')
        )

    assert upload("abc").request_hash == upload("xyz").request_hash


def test_the_model_of_a_plain_call_is_the_one_in_its_body():
    assert read_call(plain("POST", "/v1/embeddings", body=b'{"model": "e"}')).model == "e"
    assert read_call(plain("POST", "/v1/embeddings", body=b'{"model": 5}')).model == ""
    assert read_call(plain("POST", "/v1/embeddings", body=b"5")).model == ""


def test_a_reader_reads_an_equal_call_once_whoever_asks():
    reader = Reader()
    first = reader.read(call_of(headers={"x-stainless-retry-count": "0"}))
    assert reader.read(call_of(headers={"x-stainless-retry-count": "1"})) is first


@pytest.mark.parametrize(
    "other",
    [
        call_of(text="Ho"),
        http_call("openai_responses", request_of()),
        call_of(stream=True),
        HttpCall("GET", "/chat/completions", "", {}, call_of().body),
    ],
)
def test_a_reader_takes_no_call_for_another(other):
    reader = Reader()
    first = reader.read(call_of())
    assert reader.read(other) == read_call(other) != first


def test_a_reader_tells_streams_of_events_and_of_arrays_apart():
    reader, body = Reader(), call_of("gemini").body
    path = "/v1beta/models/m:streamGenerateContent"
    events, array = (reader.read(HttpCall("POST", path, query, {}, body)) for query in ("alt=sse", ""))
    assert (events.is_array, array.is_array) == (False, True)


@pytest.mark.parametrize(("calls", "size"), [(MAX_KEPT + 1, 1), (3, MAX_KEPT_BYTES // 2)])
def test_a_reader_forgets_when_it_has_read_much(calls, size):
    reader, body = Reader(), call_of(text="#" * size).body
    first = reader.read(chat(body.replace(b"#", b"-1", 1)))
    for number in range(calls):
        reader.read(chat(body.replace(b"#", b"%d" % number, 1)))
    again = reader.read(chat(body.replace(b"#", b"-1", 1)))
    assert again is not first
    assert again == first
