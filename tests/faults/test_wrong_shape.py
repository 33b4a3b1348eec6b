"""The wrong_shape fault."""

import pytest

from offbook import MockProvider, WrongShape
from offbook.errors import MalformedResponseError, RecordingFormatError


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "raw", ["[]", "null", '"ok"', '{"choices": []}', '{"choices": [{"message": 5}]}', ' {"a": "ä"}\n']
)
def test_the_complaint_of_the_real_codec_surfaces_with_what_arrived(strike, raw, stream):
    came, error, _ = strike({"type": "wrong_shape", "raw": raw}, stream=stream)
    assert (came, type(error)) == ([], MalformedResponseError)
    assert (error.raw, error.body, error.provider) == (raw, raw, "mock")


def test_by_default_the_answer_is_an_object_without_choices(strike):
    _, error, _ = strike({"type": "wrong_shape"})
    assert error.raw == '{"status": "ok"}'
    assert "missing required field `choices`" in str(error)


def test_it_fails_also_with_what_the_codec_could_read(strike):
    raw = '{"choices": [{"message": {"content": "fine"}}]}'
    _, error, _ = strike({"type": "wrong_shape", "raw": raw})
    assert (type(error), error.raw) == (MalformedResponseError, raw)


@pytest.mark.parametrize("raw", ["", "not valid json", "{", "[] []", "NaN", '"\ud800"', "[" * 100_000])
def test_what_is_no_json_is_refused(raw):
    with pytest.raises(ValueError, match=r"raw cannot be read as JSON: .*; malformed_response takes any text"):
        WrongShape(raw)


def test_what_is_no_json_is_refused_in_a_recording_with_its_place():
    with pytest.raises(RecordingFormatError, match="raw cannot be read as JSON") as caught:
        MockProvider(responses={"a": [{"content": "fine"}, {"fault": {"type": "wrong_shape", "raw": "{"}}]})
    assert caught.value.place == "key 'a'[1].fault"
