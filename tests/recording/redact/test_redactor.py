"""Redaction: secrets of every shape go, wherever they stand, and what only looks like one stays."""

import json
import time

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from offbook import Redactor
from offbook.errors import InputError
from offbook.faults import HttpError, MalformedResponse, StreamTruncate, WrongShape
from offbook.recording.format.exchange import Exchange, RecordedToolCall, StreamPiece, ToolCallPiece
from offbook.recording.format.wire_record import WireRecord
from offbook.recording.redact.redactor import SECRET_FIELDS, SecretFinding

MIX = "aB3dE6gH9jK2mN5p"
PEM = ("-----" + "BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA" + MIX, "-----" + "END RSA PRIVATE KEY-----")
EXAMPLES = [
    ("anthropic-key", "sk-" + "ant-" + "api03-" + MIX * 2),
    ("openai-key", "sk-" + MIX * 3),
    ("openai-key", "sk-" + "proj-" + MIX + "_" + MIX + "-" + MIX),
    ("openai-key", "sk-" + "svcacct-" + MIX * 2),
    ("openai-key", "sk-" + "admin-" + MIX * 2),
    ("openai-key", "sk-" + "abcdefghijklmnopqrstuvwxyz"),
    ("google-key", "AI" + "za" + "Sy" + MIX * 2),
    ("aws-key", "AK" + "IA" + "ABCDEFGH23456789"),
    ("aws-key", "AS" + "IA" + "ABCDEFGH23456789"),
    ("github-token", "gh" + "p_" + MIX * 2),
    ("github-token", "gh" + "s_" + MIX * 2),
    ("github-token", "github" + "_pat_" + MIX + "_" + MIX),
    ("gitlab-token", "gl" + "pat-" + MIX + "-_xy"),
    ("slack-token", "xo" + "xb-" + "1234567890-" + MIX),
    ("hugging-face-token", "h" + "f_" + MIX * 2),
    ("groq-key", "gs" + "k_" + MIX * 2),
    ("xai-key", "xa" + "i-" + MIX * 2),
    ("stripe-key", "sk" + "_live_" + MIX),
    ("stripe-key", "rk" + "_live_" + MIX),
    ("json-web-token", "ey" + "J" + MIX + ".ey" + "J" + MIX + "." + MIX),
    ("bearer-token", "Bear" + "er " + MIX + "." + MIX + "=="),
    ("bearer-token", "bear" + "er " + "0123456789abcdef"),
    ("private-key", "\n".join(PEM)),
    ("private-key", "\n".join(PEM[:2])),
    ("private-key", "\\n".join(PEM)),
]
KEYS = [secret for kind, secret in EXAMPLES if kind not in ("bearer-token", "private-key")]
INNOCENT = [
    "The prefix sk- stands before every key.",
    "sk-learn-compatible-estimators are easy to use",
    "sk-ant-colony-optimisation-method",
    "a task-force-on-artificial-intelligence-safety met",
    "a risk-averse-and-cautious-investor-since-2019-or-so",
    "desk-1234567890abcdefgh",
    "Bearer authentication/authorization.",
    "the bearer responsibilities",
    "Bearer token-based-authentication",
    "xoxo-hugs-and-kisses-for-you",
    "ASIAPACIFICHEADQUARTERSOFTHECOMPANY",
    "PAKIAABCDEFGH23456789",
    "shf_" + MIX * 2,
    "half_" + MIX * 2,
    "eyJ is how these begin",
    "-----BEGIN PRIVATE KEY----- is the first line of it",
    "-----BEGIN PUBLIC KEY-----\n" + MIX * 2 + "\n-----END PUBLIC KEY-----",
    "password: ask your administrator",
    '{"passwords": "none", "cookie_banner": "shown"}',
    '{"password": "", "cookie": null, "api_key": true}',
]
redactor = Redactor()
examples = pytest.mark.parametrize(("kind", "secret"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])


def hidden_in(exchange, secret):
    """Whether nothing of the secret that matters is left in the exchange."""
    data = msgspec.json.encode(exchange).decode()
    return secret not in data and json.dumps(secret)[1:-1] not in data and MIX not in data


AROUND = ["{}", "({})", '"{}"', "key={}", "key:{}.", "\\n{}\\n", "a%20{}", "\\u0027{}", "-{}", "\t{}\n"]


@examples
def test_a_secret_becomes_a_mark_of_its_kind_whatever_stands_around_it(kind, secret):
    text = redactor.text(f"before {secret} after")
    assert text.startswith(f"before <redacted:{kind}:")
    assert text.endswith("> after")
    assert secret not in text
    for around in AROUND:
        text = redactor.text(around.format(secret))
        assert f"<redacted:{kind}:" in text
        assert secret not in text


def test_what_only_looks_like_a_secret_stays():
    for text in INNOCENT:
        assert redactor.text(text) == text
        exchange = Exchange(content=text, chunks=[(0.0, text)], request=Raw(orjson.dumps({"messages": [text]})))
        assert redactor.redact(exchange) is exchange
        assert redactor.findings(exchange) == []


def test_the_same_secret_has_the_same_mark_and_another_has_another():
    one, other = "sk-" + MIX * 2, "sk-" + MIX * 3
    marks = redactor.text(f"{one} {other} {one}").split()
    assert marks[0] == marks[2] != marks[1]
    assert Redactor().text(one) == marks[0]


@examples
def test_a_secret_goes_from_every_part_of_an_exchange(kind, secret):
    exchange = Exchange(
        content=f"a {secret}",
        model="m",
        reasoning=f"a {secret}",
        tool_calls=[
            RecordedToolCall(name="x", arguments={"deep": [{"er": f"a {secret}"}]}, reasoning=f"a {secret}"),
            RecordedToolCall(name="x", arguments=f"{{oops {secret}"),
        ],
        chunks=[
            (0.0, f"a {secret}"),
            (0.0, StreamPiece(reasoning=f"a {secret}")),
            (0.0, StreamPiece(tool_call=ToolCallPiece(0, "c", "x", f"a {secret}"))),
        ],
        fault=HttpError(401, {"x-note": f"a {secret}"}, f"a {secret}"),
        request=Raw(orjson.dumps({"messages": [{"role": "user", "content": f"a {secret}"}]})),
        wire=WireRecord(protocol="openai_chat", frames=[(0.0, f"a {secret}")]),
    )
    cleaned = redactor.redact(exchange)
    assert hidden_in(cleaned, secret)
    assert msgspec.json.encode(cleaned).count(f"<redacted:{kind}:".encode()) >= 10
    assert cleaned.wire is None
    assert cleaned.model == "m"
    assert cleaned.tool_calls[0].name == "x"
    assert cleaned.fault.status_code == 401
    assert redactor.findings(cleaned) == []
    assert {finding.path for finding in redactor.findings(exchange)} == {
        *("content", "reasoning", "tool_calls[0].arguments.deep[0].er", "tool_calls[0].reasoning"),
        *("tool_calls[1].arguments", "chunks", "fault.headers.x-note", "fault.body", "request.messages[0].content"),
        "wire.frames",
    }
    assert {finding.kind for finding in redactor.findings(exchange)} == {kind}


def test_a_secret_that_another_one_hid_goes_too():
    glued = "AK" + "IA" + "ABCDEFGH23456789" + "gh" + "p_" + MIX * 2
    text = redactor.text(glued)
    assert MIX not in text
    assert redactor.text(text) == text
    cleaned = redactor.redact(Exchange(content=glued, chunks=[(0.0, glued[:25]), (1.0, glued[25:])]))
    assert hidden_in(cleaned, MIX)


def test_raw_bytes_of_a_malformed_answer_are_cleaned():
    secret = EXAMPLES[0][1]
    assert hidden_in(redactor.redact(Exchange(fault=MalformedResponse(f"<html>{secret}"))), secret)


def test_a_fault_without_texts_stays():
    exchange = Exchange(content=EXAMPLES[0][1], fault=StreamTruncate(3, "clean"))
    assert redactor.redact(exchange).fault == StreamTruncate(3, "clean")


@pytest.mark.parametrize(
    "make",
    [
        str,
        lambda text: StreamPiece(reasoning=text),
        lambda text: StreamPiece(tool_call=ToolCallPiece(0, arguments=text)),
    ],
)
@given(data=st.data())
def test_a_secret_that_is_split_over_chunks_goes_wherever_it_is_split(make, data):
    _, secret = data.draw(st.sampled_from(EXAMPLES))
    text = f"before {secret} after"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    between = data.draw(st.integers(0, len(parts)))
    chunks = [(float(place), make(part)) for place, part in enumerate(parts)]
    chunks.insert(between, (99.0, StreamPiece(tool_call=ToolCallPiece(7, arguments="other"))))
    cleaned = redactor.redact(Exchange(content=text, chunks=chunks))
    assert hidden_in(cleaned, secret)
    assert [at_ms for at_ms, _ in cleaned.chunks] == [at_ms for at_ms, _ in chunks]
    pieces = [piece for at_ms, piece in cleaned.chunks if at_ms != 99.0]
    assert "".join(text_of(piece) for piece in pieces) == redactor.text(text)


def text_of(piece):
    if isinstance(piece, str):
        return piece
    return piece.tool_call.arguments if piece.tool_call is not None else piece.reasoning


def test_a_secret_is_found_at_every_split_in_two():
    for secret in KEYS:
        text = f"use {secret} now"
        for cut in range(len(text) + 1):
            cleaned = redactor.redact(Exchange(content=text, chunks=[(0.0, text[:cut]), (1.0, text[cut:])]))
            assert "".join(piece for _, piece in cleaned.chunks) == redactor.text(text)


def test_ids_and_names_of_streamed_calls_stay():
    secret = EXAMPLES[0][1]
    chunks = [(0.0, StreamPiece(tool_call=ToolCallPiece(1, "c1", "get", f'{{"k": "{secret}"}}')))]
    ((_, piece),) = redactor.redact(Exchange(chunks=chunks)).chunks
    assert piece.tool_call.index == 1
    assert piece.tool_call.id == "c1"
    assert piece.tool_call.name == "get"


@pytest.mark.parametrize("spelling", [str, str.upper, str.title])
def test_the_values_of_secret_fields_go_in_any_spelling(spelling):
    for name in SECRET_FIELDS:
        assert_field_is_secret(spelling(name))


def assert_field_is_secret(name):
    exchange = Exchange(
        tool_calls=[
            RecordedToolCall(name="x", arguments={name: "hunter2", "list": [{name: ["hunter2"]}], "kept": "yes"})
        ],
        fault=HttpError(401, {name: "hunter2", "kept": "yes"}),
    )
    cleaned = redactor.redact(exchange)
    assert "hunter2" not in str(cleaned)
    assert cleaned.fault.headers == {name: "<redacted>", "kept": "yes"}
    assert cleaned.tool_calls[0].arguments == {name: "<redacted>", "list": [{name: ["<redacted>"]}], "kept": "yes"}
    assert [finding.kind for finding in redactor.findings(exchange)] == [f"field {name.lower()}"] * 3
    assert redactor.findings(cleaned) == []


def test_a_secret_that_only_the_name_of_its_field_tells_goes_whole():
    secret = "wJalrXUtnFEMI" + "/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
    cleaned = Redactor().value({"env": {"old_aws_secret": secret, "checksum": secret}})
    assert cleaned["env"]["old_aws_secret"].startswith("<redacted:aws-secret-key:")
    assert cleaned["env"]["checksum"] == secret


@pytest.mark.parametrize("value", ["hunter2", 'hun"ter2', "hun\\ter2", "hunter2\\", "hün\nter2", "", 4711, -1.5])
@pytest.mark.parametrize(
    "dump",
    [
        json.dumps,
        repr,
        lambda value: json.dumps(json.dumps(value)),
        lambda value: json.dumps({"a": json.dumps({"b": json.dumps(value)})}),
    ],
)
def test_secret_fields_go_from_json_inside_a_text_too(value, dump):
    text = dump({"user": "ada", "password": value, "last": "kept"})
    cleaned = redactor.text(text)
    assert "ter2" not in cleaned
    assert "4711" not in cleaned
    assert "ada" in cleaned
    assert "kept" in cleaned
    assert (cleaned == text) == (value == "")
    if dump is json.dumps and value != "hunter2\\":
        assert json.loads(cleaned) == {"user": "ada", "password": value and "<redacted>", "last": "kept"}


def test_a_secret_field_that_breaks_off_goes_to_its_end():
    assert redactor.text('{"user": "ada", "password": "hun') == '{"user": "ada", "password": "<redacted>'


def test_arguments_that_stream_lose_the_same_fields_as_those_that_do_not():
    arguments = '{"user":"ada","password":"hunter2","pin":1}'
    exchange = Exchange(
        tool_calls=[RecordedToolCall(name="login", arguments=json.loads(arguments))],
        chunks=[
            (0.0, StreamPiece(tool_call=ToolCallPiece(0, arguments=arguments[n : n + 5])))
            for n in range(0, len(arguments), 5)
        ],
    )
    cleaned = Redactor(fields=("pin",)).redact(exchange)
    streamed = json.loads("".join(text_of(piece) for _, piece in cleaned.chunks))
    assert streamed == cleaned.tool_calls[0].arguments == {"user": "ada", "password": "<redacted>", "pin": "<redacted>"}


def test_patterns_of_the_user_go_also_when_they_look_at_quotes_lines_or_ends():
    mine = Redactor(patterns=(r"CUST-\d{4}", r'"id": "\w+"', r"^first line$", r"(?s)BEGIN.*END", "x*"))
    for text in ("of CUST-1234.", '{"id": "abc"}', "first line", "BEGIN\nsecret\nEND", "x"):
        exchange = Exchange(content=text)
        assert "<redacted>" in mine.redact(exchange).content
        assert [finding.kind for finding in mine.findings(exchange)] == ["user pattern"]
        assert mine.findings(mine.redact(exchange)) == []
    clean = Exchange(content="nothing here", request=Raw(b'{ "spaced" : 1 }'))
    assert Redactor(patterns=("secret",)).redact(clean) is clean


def test_patterns_of_the_user_are_found_over_chunks():
    cleaned = Redactor(patterns=(r"CUST-\d{4}",)).redact(
        Exchange(chunks=[(0.0, "of CU"), (1.0, "ST-12"), (2.0, "34.")])
    )
    assert [piece for _, piece in cleaned.chunks] == ["of <redacted>", "", "."]


def test_fields_of_the_user_go_in_any_spelling():
    mine = Redactor(fields=("E-Mail", "Straße"))
    exchange = Exchange(request=Raw(orjson.dumps({"e-mail": "a", "E-MAIL": "b", "STRAßE": "c", "kept": "d"})))
    assert mine.redact(exchange).request_fields() is None
    cleaned = orjson.loads(bytes(mine.redact(exchange).request))
    assert cleaned == {"e-mail": "<redacted>", "E-MAIL": "<redacted>", "STRAßE": "<redacted>", "kept": "d"}


def test_a_pattern_that_cannot_be_read_is_refused():
    with pytest.raises(InputError, match="invalid pattern") as caught:
        Redactor(patterns=("(",))
    assert caught.value.source == "redaction"


texts = st.lists(
    st.sampled_from([secret for _, secret in EXAMPLES] + INNOCENT)
    | st.sampled_from(["<redacted>", "<redacted:openai-key:01234567>", '{"password": "', '"}', "CUST-12", "'"])
    | st.text(max_size=5),
    max_size=5,
).map("".join)
redactors = st.sampled_from(
    [
        redactor,
        Redactor(patterns=(r"CUST-\d+", r"\w{3}")),
        Redactor(patterns=("[0-9a-f]+", "redact", ".")),
        Redactor(patterns=("(?s).+",)),
        Redactor(fields=("user",)),
    ]
)


@given(texts, redactors)
def test_redacting_twice_changes_nothing_and_leaves_nothing_to_find(text, mine):
    exchange = Exchange(content=text, chunks=[(0.0, text[:3]), (1.0, text[3:])], request=Raw(orjson.dumps({"x": text})))
    once = mine.redact(exchange)
    assert mine.redact(once) is once
    assert mine.findings(once) == []
    assert bool(mine.findings(exchange)) == (once is not exchange)


@given(
    st.recursive(
        texts | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["password", "Cookie", "note"]), inner),
        max_leaves=5,
    )
)
def test_any_value_keeps_its_shape_and_loses_its_secrets(value):
    cleaned = redactor.value(value)
    assert redactor.value(cleaned) == cleaned
    assert skeleton(cleaned) == skeleton(value)


def skeleton(value):
    if isinstance(value, dict):
        return {name: skeleton(item) for name, item in value.items()}
    return [skeleton(item) for item in value] if isinstance(value, list) else None


def test_findings_tell_the_place_and_the_kind_and_not_the_secret():
    secret = EXAMPLES[1][1]
    request = {"messages": [{"role": "user", "content": [{"type": "text", "text": secret}]}], "extra": {"api_key": "x"}}
    found = redactor.findings(Exchange(request=Raw(orjson.dumps(request))))
    assert found == [
        SecretFinding("request.messages[0].content[0].text", "openai-key"),
        SecretFinding("request.extra.api_key", "field api_key"),
    ]
    assert secret not in str(found)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "word-",
            "sk-",
            "sk-a-",
            "eyJ-",
            "Bearer ",
            "bearer  a/",
            "\\",
            "-",
            "<redacted",
            "-----BEGIN PRIVATE KEY----- ",
        ),
        *('"password" ', '"password": ', '\\"password\\": \\"x', "'cookie':'"),
    ],
)
def test_hostile_texts_are_looked_through_in_time(piece):
    started_s = time.process_time()
    text = "sk-" + piece * (10_000 // len(piece))
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert time.process_time() - started_s < 10


def test_a_fault_whose_text_must_be_json_keeps_some_when_a_pattern_breaks_it():
    exchange = Exchange(fault=WrongShape(raw='{"code": 1234}'))
    cleaned = Redactor(patterns=(r"\d{4}",)).redact(exchange)
    assert isinstance(cleaned.fault, WrongShape)
    assert orjson.loads(cleaned.fault.raw) == '{"code": <redacted>}'
