"""What SDKs take for granted in the bytes themselves, and would not complain about."""

import httpx
import orjson
import pytest

from tests.wire.conformance.answers import PLAIN, QUESTION, STEP

pytestmark = pytest.mark.xdist_group("sdks")

MESSAGES = [{"role": "user", "content": QUESTION}]
CHAT = ("/v1/chat/completions", {"model": "m", "messages": MESSAGES, "stream": True})
RESPONSES = ("/v1/responses", {"model": "m", "input": QUESTION, "stream": True})
ANTHROPIC = ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": MESSAGES, "stream": True})
CONTENTS = {"contents": [{"parts": [{"text": QUESTION}]}]}
GOOGLE = ("/v1beta/models/m:streamGenerateContent?alt=sse", CONTENTS)
GOOGLE_ARRAY = ("/v1beta/models/m:streamGenerateContent", CONTENTS)
OLLAMA = ("/api/chat", {"model": "m", "messages": MESSAGES})


def answer_of(run, place, step="plain"):
    path, body = place
    return httpx.post(run.url + path, json=body, headers={STEP: step})


def frames(answer):
    assert answer.text.endswith("\n\n")
    return answer.text.removesuffix("\n\n").split("\n\n")


def test_a_chat_stream_is_data_alone_up_to_done(run):
    names = frames(answer_of(run, CHAT))
    assert all(frame.startswith("data: ") for frame in names)
    assert names[-1] == "data: [DONE]"


def test_a_stream_of_responses_names_its_events_and_has_no_done(run):
    names = frames(answer_of(run, RESPONSES))
    for frame in names:
        name, data = frame.split("\n")
        assert name.removeprefix("event: ") == orjson.loads(data.removeprefix("data: "))["type"]
    assert "[DONE]" not in names[-1]


def test_a_stream_of_anthropic_names_its_events(run):
    for frame in frames(answer_of(run, ANTHROPIC)):
        name, data = frame.split("\n")
        assert name.removeprefix("event: ") == orjson.loads(data.removeprefix("data: "))["type"]


def test_a_stream_of_gemini_is_data_alone(run):
    assert all(frame.startswith("data: {") and "\n" not in frame for frame in frames(answer_of(run, GOOGLE)))


def test_gemini_streams_an_array_to_who_asks_for_no_events(run):
    answer = answer_of(run, GOOGLE_ARRAY)
    assert answer.headers["content-type"] == "application/json"
    parts = [part for frame in answer.json() for part in frame["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts) == PLAIN


@pytest.mark.parametrize("count", [0, 2])
def test_an_error_inside_such_an_array_is_its_last_item(start, count):
    run = start(f"everywhere: stream_truncate {count} raise=error_event")
    *items, error = answer_of(run, GOOGLE_ARRAY).json()
    assert len(items) == count
    assert error["error"]["status"] == "INTERNAL"


def test_such_an_array_may_break_off(start):
    run = start("everywhere: stream_truncate 2 raise=malformed")
    assert answer_of(run, GOOGLE_ARRAY).text.endswith('{"broken')


def test_an_error_of_gemini_has_error_as_its_first_key(start):
    run = start("everywhere: http_error 503")
    assert answer_of(run, GOOGLE).content.startswith(b'{"error":')


def test_a_stream_of_ollama_has_no_blank_lines_and_its_error_is_a_text(start):
    answer = answer_of(start(), OLLAMA)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert all(answer.text.removesuffix("\n").split("\n"))
    assert answer_of(start("everywhere: http_error 500"), OLLAMA).json() == {"error": "an injected error"}


@pytest.mark.parametrize("place", [CHAT, RESPONSES, ANTHROPIC, GOOGLE, OLLAMA], ids=lambda place: place[0])
def test_an_event_is_one_line_to_who_knows_more_line_breaks_than_json(run, place):
    answer = answer_of(run, place, "odd")
    assert answer.text.splitlines() == answer.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
