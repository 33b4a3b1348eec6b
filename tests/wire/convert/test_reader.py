"""Which kind of file it is, what is refused, and fixtures of aimock."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.recording.format.file import parse_document, render_document
from offbook.wire.convert.reader import read_traces
from tests.servers.aimock import ANSWERS
from tests.wire.convert import test_har, test_spans
from tests.wire.convert.importing import imported, write_json
from tests.wire.http_requests import answer_to, call_of, session_of, text_of


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no kind that can be imported"),
        ("[]", "no kind that can be imported"),
        ("{}", "no kind that can be imported"),
        ('{"log": {"entries": 1}}', "no kind that can be imported"),
        ('{"fixtures": []}', "no kind that can be imported"),
        ('{"attributes": {}, "context": {}} 7', "no kind that can be imported"),
        ('{"a": ', "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested more than 64 levels deep"),
        ("a: [", "did not find expected node content"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: !!timestamp 2026-99-99", "month must be in"),
        ("\ud800", "not UTF-8"),
    ],
)
def test_a_file_of_no_known_kind_is_refused(tmp_path, text, message):
    path = tmp_path / "file"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=message) as caught:
        read_traces([str(path)])
    assert caught.value.source == str(path)


def test_a_program_is_not_explained_as_yaml(tmp_path):
    path = tmp_path / "travel.py"
    path.write_text('"""Travel."""\n\nimport openai\n')
    with pytest.raises(InputError, match="the file is neither JSON nor YAML"):
        read_traces([str(path)])


def test_a_file_that_is_not_there_or_not_of_the_named_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_traces([str(tmp_path / "nowhere")])
    with pytest.raises(InputError, match="the file is not a HAR archive"):
        read_traces([str(ANSWERS)], kind="har")


def test_fixtures_that_aimock_itself_accepts_answer_in_their_order():
    """Another test starts aimock with them, with --validate-on-load."""
    document, _ = imported(ANSWERS)
    assert document.exchanges("aimock")
    assert all(exchange.request_hash is None for exchange in document.exchanges("aimock"))


def test_fixtures_become_answers_to_any_request(tmp_path):
    fixtures = [
        {
            "match": {"userMessage": "hi"},
            "response": {"content": "Hello", "usage": {"prompt_tokens": 3}},
            "latency": 20,
        },
        {"match": {}, "response": {"toolCalls": [{"name": "find", "arguments": '{"id": 1}', "id": "c"}]}},
        {"match": {}, "response": {"blocks": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}},
        {"match": {}, "response": {"content": {"as": "JSON"}, "reasoning": "hm", "finishReason": "length"}},
        {"match": {}, "response": {"error": {"message": "slow down"}, "status": 429, "retryAfter": 7}},
        {"match": {"inputText": "x"}, "response": {"embedding": [1.0]}},
        {"match": {"systemMessage": "be nice"}, "response": {"content": "x"}},
        {"match": {"endpoint": "speech"}, "response": {"content": "x"}},
        {"match": {}, "response": {"toolCalls": [{}]}},
    ]
    document, unmapped = imported(write_json(tmp_path / "f.json", {"fixtures": fixtures}))
    hello, call, blocks, as_json, refused = document.exchanges("aimock")
    assert hello.content == "Hello"
    assert hello.usage.prompt_tokens == 3
    assert hello.latency_ms == 20.0
    assert call.tool_calls[0].name == "find"
    assert call.tool_calls[0].arguments == {"id": 1}
    assert blocks.content == "ab"
    assert as_json.content == '{"as":"JSON"}'
    assert as_json.reasoning == "hm"
    assert as_json.finish_reason == "length"
    assert refused.fault.status_code == 429
    assert refused.fault.headers == {"retry-after": "7"}
    assert refused.fault.body == '{"error":{"message":"slow down"}}'
    assert dict(unmapped) == {
        "fixture 6": "not an answer of a chat: embedding",
        "fixture 7": "it answers under a condition: systemMessage",
        "fixture 8": "not a chat: speech",
        "fixture 9": "not a fixture as aimock reads it: KeyError('arguments')",
    }


def test_imported_fixtures_are_served(tmp_path):
    fixtures = [{"match": {"userMessage": text}, "response": {"content": text.upper()}} for text in ("a", "b")]
    document, _ = imported(write_json(tmp_path / "f.json", fixtures))
    session = session_of(orjson.loads(render_document(document)))
    assert [text_of(answer_to(session, call_of(text=text))) for text in ("x", "y")] == ["A", "B"]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
VCR_ANSWER = {"status": {"code": 200}, "headers": {}, "body": {"string": "{}"}}
POST = {"method": "POST", "body": '{"model": "m", "messages": []}', "headers": {"a": ["b"]}}
SAMPLES = (
    {"log": {"entries": [test_har.entry(_offbook={"key": "k", "frames": [[1.0, 3]], "request_hash": "0" * 64})]}},
    {"interactions": [{"request": POST | {"uri": "https://api.openai.com/v1/responses"}, "response": VCR_ANSWER}]},
    {"fixtures": [{"match": {"userMessage": "a"}, "response": {"content": "b", "toolCalls": [], "usage": {}}}]},
    test_spans.exported(gen_ai__input__messages='[{"role":"user","parts":[]}]', **test_spans.CHAT),
    test_spans.exported(openinference__span__kind="LLM", llm__input_messages__0__message__role="user"),
)


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in children:
        yield from places(inner, (*path, name))


def changed(value, path, other):
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], other)
    return copy


@given(data=st.data())
def test_a_file_with_anything_anywhere_is_refused_or_becomes_a_recording_that_can_be_read(tmp_path_factory, data):
    sample = data.draw(st.sampled_from(SAMPLES))
    broken = changed(sample, data.draw(st.sampled_from(list(places(sample)))), data.draw(PLAIN))
    path = write_json(tmp_path_factory.getbasetemp() / "broken.json", broken)
    try:
        document, _ = imported(path)
    except InputError:
        return
    assert parse_document(render_document(document), source="x").size == document.size
