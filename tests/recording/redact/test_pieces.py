"""Secrets that no document holds whole: interleaved streams, messages of sockets, notifications, bytes, gateways."""

import base64
import itertools
import json
import random
from urllib.parse import quote

import msgspec
import orjson
import pytest

from offbook.recording.format.exchange import Exchange, StreamPiece, ToolExchange
from offbook.recording.format.wire_record import BinaryText, WireRecord, spelled_texts, wire_text
from offbook.recording.redact.redactor import Redactor
from offbook.wire.request import HttpRequest, credentials_of, set_cookies
from tests.recording.redact.fake_secrets import letters

KEY = f"ghp_{'a1B2c3D4e5' * 4}"
CUTS = [KEY[:9], KEY[9:20], KEY[20:]]
OTHER = ["It is ", "sunny ", "in Oslo."]


def sse(values, ids=()):
    heads = [f"id: {each}\n".encode() for each in ids] or [b""] * len(values)
    data = [value.encode() if isinstance(value, str) else orjson.dumps(value) for value in values]
    return [head + b"data: " + each + b"\n\n" for head, each in zip(heads, data, strict=True)]


def alternate(make):
    """The events of two texts whose pieces alternate: the first is ordinary, the second the key."""
    return [make(number, text) for pair in zip(OTHER, CUTS, strict=True) for number, text in enumerate(pair)]


def choice(number, text):
    return {"id": "c", "choices": [{"index": number, "delta": {"content": text}}]}


def block(number, text):
    return {"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": text}}


def item(number, text):
    return {"type": "response.output_text.delta", "item_id": f"i_{number}", "output_index": number, "delta": text}


def thought(number, text):
    return {"seq": next(COUNTER), "part": {"itemId": number, "anything": {"new": text}}}


def choices_of_each(number, text):
    return {"choices": [{"index": 1 - number, "text": "."}, {"index": number, "text": text}]}


COUNTER = itertools.count()
MAKERS = [choice, block, item, thought, choices_of_each]


def kept(exchange):
    """Whether the pieces of the key are kept, in order, anywhere in what is written."""
    text = msgspec.json.encode(exchange).decode()
    place = 0
    return all((place := text.find(piece, place)) >= 0 for piece in CUTS)


@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic", "http"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_pieces_of_interleaved_streams_go(make, protocol):
    frames = [(float(at), data.decode()) for at, data in enumerate(sse(alternate(make)))]
    record = WireRecord(protocol=protocol, frames=frames)
    arrived = "".join(text for pair in zip(OTHER, CUTS, strict=True) for text in pair)
    chunks = [(0.0, text) for pair in zip(OTHER, CUTS, strict=True) for text in pair]
    exchange = Exchange(content=arrived, chunks=chunks, wire=record)
    assert kept(exchange)
    assert not kept(Redactor().redact(exchange))
    assert Redactor().findings(exchange)


def test_the_pieces_of_plain_events_go_by_their_ids():
    events = [text for pair in zip(OTHER, CUTS, strict=True) for text in pair]
    frames = [(0.0, data.decode()) for data in sse(events, ids=["a", "b"] * 3)]
    exchange = Exchange(content="", wire=WireRecord(protocol="http", frames=frames))
    assert not kept(Redactor().redact(exchange))


def test_what_alternates_and_is_no_secret_stays():
    frames = [(0.0, data.decode()) for data in sse([make(n, t) for make in MAKERS for n, t in enumerate(OTHER)])]
    chunks = [(0.0, "It "), (1.0, StreamPiece(reasoning="is"))]
    exchange = Exchange(content="It", reasoning="is", chunks=chunks, wire=WireRecord(protocol="http", frames=frames))
    assert Redactor().redact(exchange) is exchange


@pytest.mark.parametrize("make", [*MAKERS, lambda number, text: {"params": {"streamId": number, "chunk": [text]}}])
@pytest.mark.parametrize("is_text", [True, False])
def test_the_pieces_of_messages_of_a_socket_go_whatever_the_field(make, is_text):
    sent = [orjson.dumps(value).decode() for value in alternate(make)]
    frames = [(0.0, text if is_text else BinaryText(binary=text)) for text in sent]
    exchange = Exchange(content="", wire=WireRecord(protocol="websocket", frames=frames))
    assert not kept(Redactor().redact(exchange))


@pytest.mark.parametrize("around", [b"", b"\xff\x00", b"\x80"])
def test_the_pieces_of_messages_that_are_no_json_go(around):
    frames = [(0.0, wire_text(around + piece.encode())) for piece in CUTS]
    exchange = Exchange(content="", wire=WireRecord(protocol="websocket", frames=frames))
    cleaned = Redactor().redact(exchange)
    data = b"".join(data.replace(around, b"") for _, data in cleaned.wire.timed_frames())
    if not around:
        assert KEY.encode() not in data
    whole = Exchange(
        content="", wire=WireRecord(protocol="websocket", frames=[(0.0, wire_text(around + KEY.encode()))])
    )
    [(_, left)] = Redactor().redact(whole).wire.timed_frames()
    assert left.startswith(around)
    assert b"ghp_" not in left


def test_the_pieces_of_mcp_notifications_go():
    sent = [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": n % 2, "message": text}}
        for n, text in enumerate(text for pair in zip(OTHER, CUTS, strict=True) for text in pair)
    ]
    record = WireRecord(protocol="mcp", frames=[(0.0, json.dumps(each) + "\n") for each in sent])
    exchange = ToolExchange(arguments={}, result="fine", wire=record)
    cleaned = Redactor().redact_tool(exchange)
    assert not kept(cleaned)
    messages = [json.loads(text) for _, text in cleaned.wire.frames]
    assert [each["params"]["message"] for each in messages[::2]] == OTHER


@pytest.mark.parametrize(
    "before", [b"\xff\xfe", b'\x89PNG\r\n--x\r\ncontent-disposition: form-data; filename="', b"\x00\x80="]
)
def test_bytes_are_searched_as_bytes(before):
    upload = before + KEY.encode() + b"\x80\xff end"
    request = msgspec.Raw(msgspec.json.encode({"body": {"base64": base64.b64encode(upload).decode()}}))
    exchange = Exchange(content="", request=request, wire=WireRecord(protocol="http", body=wire_text(upload)))
    cleaned = Redactor().redact(exchange)
    body = base64.b64decode(json.loads(bytes(cleaned.request))["body"]["base64"])
    for data in (body, cleaned.wire.content()):
        assert KEY.encode() not in data
        assert data.startswith(before)
        assert data.endswith(b"\x80\xff end")


@pytest.mark.parametrize("times", range(4))
@pytest.mark.parametrize("text", ["x {KEY}", "token={KEY}", "https://a.test/?q=1&api_key=zQ8{KEY}", 'say "{KEY}"'])
def test_a_key_goes_however_often_what_is_around_it_was_encoded(text, times):
    for _ in range(times):
        text = quote(text, safe="{}")
    assert KEY not in Redactor().text(text.replace("{KEY}", KEY))


@pytest.mark.parametrize(
    "name",
    [
        *("x-portkey-api-key", "cf-aig-authorization", "helicone-auth", "x-gateway-key", "x-litellm-api-key"),
        *("ocp-apim-subscription-key", "x-vault-token", "circle-token", "private-token", "x-session-token"),
        *("braintrust-key", "hf-token", "api_key", "token", "x-forwarded-access-token"),
    ],
)
def test_what_a_gateway_is_sent_is_a_credential_of_the_request(name):
    request = HttpRequest("POST", "/v1/chat/completions", "", {name: "Bearer opaque-4711"}, b"")
    redactor = Redactor().knowing(credentials_of(request))
    assert redactor.text("you sent opaque-4711") == "you sent <redacted>"


@pytest.mark.parametrize(
    "name",
    [
        *("content-type", "x-request-id", "x-stainless-lang", "user-agent", "x-offbook-step"),
        *("idempotency-key", "x-idempotency-key", "sec-websocket-key", "x-prompt-cache-key", "x-continuation-token"),
    ],
)
def test_other_headers_are_none(name):
    assert credentials_of(HttpRequest("POST", "/", "", {name: "application-json-4711"}, b"")) == ()


@pytest.mark.parametrize("name", ["code", "jwt", "ticket", "session", "api_key", "my-token", "sid", "accessKey"])
def test_what_the_query_proves_is_a_credential_of_the_request(name):
    [secret] = credentials_of(HttpRequest("POST", "/", f"{name}=opaque-value-4711&page=a-long-value-12", {}, b""))
    assert secret == "opaque-value-4711"


def test_a_word_in_the_query_is_none():
    assert credentials_of(HttpRequest("POST", "/", "session=planner&code=python&state=done", {}, b"")) == ()


@pytest.mark.parametrize("value", ['Digest username="me", response="opaque-4711"', "Media Token=opaque-4711, Id=me"])
def test_the_parameters_of_an_authorization_are_credentials(value):
    redactor = Redactor().knowing(credentials_of(HttpRequest("GET", "/", "", {"authorization": value}, b"")))
    assert redactor.text("you sent opaque-4711") == "you sent <redacted>"


@pytest.mark.parametrize(
    "form",
    [
        "client_secret={0}&grant_type=client_credentials",
        "refresh_token={0}",
        "https://a.test/#access_token={0}&expires_in=3600",
        'content-disposition: form-data; name="client_secret"\r\ncontent-type: text/plain\r\n\r\n{0}\r\n--b--',
    ],
)
def test_a_field_of_a_form_is_secret_wherever_it_stands(form):
    body = Exchange(wire=WireRecord(protocol="http", body=form.format("opaque-4711-zQ8rT5")))
    assert "opaque" not in str(Redactor().redact(body))
    assert "opaque" not in str(Redactor().value({"body": form.format("opaque-4711-zQ8rT5")}))


@pytest.mark.parametrize("name", ["accessToken", "access-token", "clientSecret", "SessionToken", "secret_key"])
def test_a_secret_field_may_be_spelled_in_any_way(name):
    assert Redactor().value({name: "opaque"}) == {name: "<redacted>"}
    assert "opaque" not in Redactor().text(json.dumps({"text": json.dumps({name: "opaque"})}))


def test_a_cookie_that_an_answer_sets_is_a_credential_of_its_call():
    assert set_cookies("theme=dark, sid=opaque-4711-zQ8; Path=/; Expires=Wed, 21 Oct 2026") == ["opaque-4711-zQ8"]


def test_a_cookie_that_is_echoed_goes():
    request = HttpRequest("GET", "/", "", {"cookie": 'theme=dark; sid=opaque-4711; _x="quoted-4712"'}, b"")
    redactor = Redactor().knowing(credentials_of(request))
    assert redactor.text("sid opaque-4711, x quoted-4712, dark") == "sid <redacted>, x <redacted>, dark"


PUTTY = "PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\n{0}\nPrivate-Lines: 1\n{1}\nPrivate-MAC: {2}"


def test_a_private_key_of_putty_goes():
    source = random.Random(1)
    public, private = letters(source, 60), letters(source, 60)
    cleaned = Redactor().text(PUTTY.format(public, private, "0" * 64))
    assert private not in cleaned
    assert public in cleaned


HARMLESS = [
    "The re_entry of fw_update_manager_for_devices took vcp_settings_of_the_monitor_that_was_bought_in_the_last_year_x",
    "npg_something_long_without_digits and napi_get_value_external and re_compile_the_pattern_again_and_again",
    "pa-rallel-processing-of-many-different-kinds-of-documents-in-one-go and al-though",
    "together with 5 others; 1//0 is no number; AQ. See page 4.",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12 and 550e8400-e29b-41d4-a716-446655440000",
    "whsec_... and rpa_robotic_process_automation; cfk_variable_name_that_is_rather_long_but_without_a_number_in_it",
    'call("key=value", token=get_token(), secret="none") and password=None; sort_key=lambda row: row.access_key',
    'curl -F "name=value" "https://a.test/#/section=key" -d "state=done&token=short"',
    "import re_2024 as fw_2; dtn_network = llx-what; e2b_models",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_code_and_hashes_stay(text):
    assert Redactor().text(text) == text


def test_texts_are_joined_in_each_way_that_could_tell_streams_apart():
    documents = [{"index": n % 2, "id": f"only-{n}", "text": str(n)} for n in range(4)]
    joined = {"".join(container[name] for container, name in places) for places in spelled_texts(documents)}
    assert {"0123", "02", "13"} <= joined
