"""What came over the wire: bytes survive, and nothing hostile gets in."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import RecordingFormatError
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import document_from_dict, render_document
from offbook.recording.format.wire_record import (
    BinaryText,
    WireRecord,
    joined_texts,
    json_documents,
    replayable_headers,
    values_by_path,
    wire_bytes,
    wire_text,
)
from tests.recording.stores.strategies import wires

STREAM = WireRecord(protocol="openai_chat", frames=[(1.5, "data: {}\n\n"), (2.0, BinaryText("/w=="))])


def refused(**wire):
    """The error with which a recording of such a wire is refused."""
    with pytest.raises(RecordingFormatError) as caught:
        document_from_dict({"a": [{"wire": {"protocol": "openai_chat"} | wire}]}, source="run.json")
    assert caught.value.source == "run.json"
    assert caught.value.hint
    assert str(caught.value).replace("\n", "").isprintable()
    return caught.value


class TestBytes:
    @given(st.binary())
    def test_any_bytes_survive_being_spelt(self, data):
        assert wire_bytes(wire_text(data)) == data

    @given(st.text())
    def test_text_is_spelt_as_itself(self, text):
        assert wire_text(text.encode()) == text

    def test_what_is_no_text_is_base64(self):
        assert wire_text(b"\xff") == BinaryText("/w==")

    def test_text_that_is_no_base64_is_refused(self):
        with pytest.raises(ValueError, match="not base64"):
            BinaryText("?")


class TestRecord:
    @given(wires)
    def test_survives_being_written(self, record):
        data = msgspec.json.encode(record)
        assert msgspec.json.decode(data, type=WireRecord) == record

    def test_a_streamed_one_has_its_frames_with_their_times(self):
        assert STREAM.is_streamed
        assert STREAM.timed_frames() == [(1.5, b"data: {}\n\n"), (2.0, b"\xff")]
        assert STREAM.content() == b"data: {}\n\n\xff"

    def test_a_whole_one_is_one_frame_at_the_start(self):
        record = WireRecord(protocol="http", body="{}")
        assert not record.is_streamed
        assert record.timed_frames() == [(0.0, b"{}")]

    def test_one_without_a_body_has_no_bytes(self):
        record = WireRecord(protocol="http", status=204)
        assert record.timed_frames() == []
        assert record.content() == b""

    def test_a_stream_that_ended_at_once_is_still_a_stream(self):
        record = WireRecord(protocol="http", frames=[])
        assert record.is_streamed
        assert record.content() == b""
        assert msgspec.json.decode(msgspec.json.encode(record), type=WireRecord).is_streamed


class TestFile:
    def test_reads_well(self):
        lines = render_document(Document(entries={"a": Exchange(content="Hi", wire=STREAM)})).decode().splitlines()
        assert '      "status": 200,' in lines
        assert r'        [1.5,"data: {}\n\n"],' in lines
        assert '        [2.0,{"base64":"/w=="}]' in lines

    @pytest.mark.parametrize(
        ("wire", "place", "reason"),
        [
            ({"status": 99}, ".status", "of at least 100"),
            ({"status": 600}, ".status", "of at most 599"),
            ({"protocol": None}, ".protocol", "expected a string"),
            ({"headers": {"a": 1}}, ".headers[...]", "expected a string"),
            ({"body": 5}, ".body", "got an integer"),
            ({"body": {"base64": "?"}}, ".body", "not base64"),
            ({"body": {"base64": "ü"}}, ".body", "not base64"),
            ({"frames": [[0, {"base64": "a"}]]}, ".frames[0][1]", "not base64"),
            ({"frames": [[0, "a"], [-0.1, "b"]]}, ".frames[1][0]", "of at least 0"),
            ({"frames": [[0, "a", "b"]]}, ".frames[0]", "length 2"),
            ({"frames": [], "body": ""}, "", "frames or a body, not both"),
        ],
    )
    def test_another_shape_is_refused_with_its_place(self, wire, place, reason):
        error = refused(**wire)
        assert error.place == f"key 'a'[0].wire{place}"
        assert reason in error.reason

    @pytest.mark.parametrize("at_ms", ["1e999", "NaN", "Infinity", "-1e999"])
    def test_a_time_that_is_no_finite_number_is_refused(self, at_ms):
        data = b'{"protocol": "http", "frames": [[%s, "a"]]}' % at_ms.encode()
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(data, type=WireRecord)

    @pytest.mark.parametrize(
        ("wire", "hint"),
        [
            ({"protocl": "x"}, "did you mean 'protocol'? fields: body,"),
            ({"body": {"base": "x"}}, "did you mean 'base64'?"),
            ({"frames": [[0, {"bas64": "x"}]]}, "did you mean 'base64'?"),
        ],
    )
    def test_an_unknown_field_is_refused_with_the_name_that_was_meant(self, wire, hint):
        assert refused(**wire).hint.startswith(hint)


class TestHeaders:
    @pytest.mark.parametrize(
        "value", ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\0b", "\x1b[2J", "a\x7f", "snow ☃", "a\n"]
    )
    def test_a_value_that_could_be_more_than_one_header_is_refused(self, value):
        error = refused(headers={"content-type": value})
        assert error.place == "key 'a'[0].wire"
        assert "the header 'content-type' has characters that are not allowed in headers" in error.reason

    @pytest.mark.parametrize("name", ["", "a b", "a\r\nb", "a:", "Content-Type", "naïve", "a\0", "a\n"])
    def test_a_name_that_is_no_lower_case_name_is_refused(self, name):
        assert "is not a lower-case name" in refused(headers={name: "x"}).reason

    def test_what_headers_may_have_is_taken(self):
        headers = {"x-a.b_c": "text\twith tab, é and \x80"}
        assert WireRecord(protocol="http", headers=headers).headers == headers

    def test_those_that_matter_on_replay_are_kept_in_lower_case(self):
        replayable = {
            "Content-Type": "text/event-stream",
            "Retry-After": "3",
            "retry-after-ms": "3000",
            "X-Should-Retry": "true",
            "x-request-id": "req_1",
            "request-id": "req_2",
            "x-ratelimit-remaining-tokens": "5",
            "anthropic-ratelimit-requests-limit": "5",
            "ratelimit-reset": "5",
            "openai-version": "2020-10-01",
            "OpenAI-Processing-Ms": "12",
        }
        assert replayable_headers(replayable) == {name.lower(): value for name, value in replayable.items()}

    @pytest.mark.parametrize(
        "name",
        [
            *("set-cookie", "Authorization", "date", "content-length", "transfer-encoding", "content-encoding"),
            *("openai-organization", "OpenAI-Project", "server", "x-content-type", "my-retry-after", "content-types"),
        ],
    )
    def test_others_are_left_out(self, name):
        assert replayable_headers({name: "x"}) == {}

    def test_what_no_file_may_have_is_left_out(self):
        assert replayable_headers({"content-type": "a\r\nb: c", "x-ratelimit-a b": "1"}) == {}

    @given(st.dictionaries(st.text() | st.just("Retry-After"), st.text()))
    def test_whatever_is_kept_can_be_recorded(self, headers):
        replayable = replayable_headers(headers)
        assert WireRecord(protocol="http", headers=replayable).headers == replayable


@pytest.mark.parametrize(
    "content",
    [
        b'[{"a": "x"}, {"a": "y"}]',
        b'data: {"a": "x"}\n\nevent: b\ndata: {"a":\ndata:  "y"}\n\ndata: [DONE]\n\n',
        b': comment\r\n\r\ndata: {"a": "x"}\r\n\r\ndata: {"a": "y"}',
        b'{"a": "x"}\n{"a": "y"}\n',
        b'{"a": "x"}\nnonsense\n{"a": "y"}\n\xff\n',
    ],
)
def test_documents_are_found_in_lists_events_and_lines(content):
    assert json_documents(content) == [{"a": "x"}, {"a": "y"}]
    assert joined_texts(content)[0] == "xy"


@pytest.mark.parametrize("content", [b"", b"plain text", b"\xff\xfe", b"[" * 5000])
def test_what_is_no_json_is_a_text_of_its_own(content):
    assert json_documents(content) == []
    assert joined_texts(content) == ([content.decode("utf-8", "replace")] if content else [])


def test_values_are_reported_by_their_paths_in_order():
    content = b'{"b": [{"c": 1}, {"c": null}], "a": {"d": "x"}, "e": []}\n{"b": [{"c": 2}]}'
    values = values_by_path(content)
    assert list(values.items()) == [("b[0].c", [1, 2]), ("b[1].c", [None]), ("a.d", ["x"])]


def test_what_is_nested_deep_is_looked_through():
    assert joined_texts(b'{"a":' * 500 + b'"x"' + b"}" * 500) == ["x"]


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_text_in_pieces_is_put_together_unless_all_pieces_are_the_same(pieces):
    events = b"".join(b"data: " + orjson.dumps({"delta": piece}) + b"\n\n" for piece in pieces)
    assert joined_texts(events) == [pieces[0] if len(set(pieces)) == 1 else "".join(pieces)]
