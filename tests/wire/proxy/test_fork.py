"""A run that leaves its recording at a call: replayed before, live from there on, and recorded as a whole."""

import orjson
import pytest

import offbook
from offbook.errors import InputError
from offbook.messages import Request, Response, Usage
from offbook.vendors import CODECS, PROVIDER_NAMES
from offbook.wire.convert.trace import http_request_of
from offbook.wire.proxy.fork import with_model
from offbook.wire.proxy.upstream import UpstreamRequest
from offbook.wire.request import HttpRequest, route_of
from tests.servers.models import CodecServer

from .recorded import HTTP, VENDOR_ROOTS, exchanges, recording

TEXTS = ("one", "two", "three")


def answers(prefix):
    """A model that repeats what it is told, and says who it is."""

    def answer(request):
        return Response(f"{prefix} {request.messages[-1]['content']}", request.model, usage=Usage.of(10, 5))

    return answer


def ask(url, *texts, codec, stream=False):
    """Ask a server for each text in a protocol, and return what it answers, decoded."""
    found = []
    for text in texts:
        asked = Request(({"role": "user", "content": text},), "old", max_tokens=50, stream=stream)
        request = http_request_of(asked, PROVIDER_NAMES[codec.name], protocol=codec.name)
        target = f"{request.path}?{request.query}" if request.query else request.path
        headers = {**request.headers, "authorization": "Bearer some-key-of-a-client"}
        answer = HTTP.post(url + target, content=request.body, headers=headers)
        found.append(_decoded(answer, codec, stream=stream) if answer.status_code == 200 else answer.status_code)
    return found


def _decoded(answer, codec, *, stream):
    if not stream:
        return codec.decode_response(answer.content).content
    decoder = codec.stream_decoder()
    list(decoder.feed(answer.content))
    return decoder.close()[1].content


def forked(old, new, server, **options):
    urls = {vendor: server.url + root for vendor, root in VENDOR_ROOTS.items()}
    return offbook.serving(old, record=new, live_from=2, upstreams=urls, **options)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))
def test_in_each_protocol_the_rest_of_a_run_is_live_with_another_model_and_recorded(codec, stream, tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    with CodecServer(codec, answers("old")) as server:
        with recording(old, server.url) as proxy:
            ask(proxy.url, *TEXTS, codec=codec, stream=stream)
        before, server.respond = old.read_bytes(), answers("new")
        del server.requests[:]
        with forked(old, new, server, live_model="other-1") as fork:
            heard = ask(fork.url, *TEXTS, codec=codec, stream=stream)
            assert [call.outcome for call in fork.calls] == ["served", "recorded", "recorded"]
    assert heard == ["old one", "new two", "new three"]
    assert [request.model for request in server.requests] == ["other-1", "other-1"]
    assert [request.messages[-1]["content"] for request in server.requests] == ["two", "three"]
    assert [each.model for each in exchanges(new)[1:]] == ["other-1", "other-1"]
    assert old.read_bytes() == before
    with offbook.serving(new) as replay:
        assert ask(replay.url, *TEXTS, codec=codec, stream=stream) == heard
        assert not replay.unused()


def test_before_the_fork_the_replay_is_strict_and_behind_it_other_requests_are_live_too(tmp_path):
    codec, old = CODECS["openai_chat"], tmp_path / "old.json"
    with CodecServer(codec, answers("old")) as server:
        with recording(old, server.url) as proxy:
            ask(proxy.url, *TEXTS, codec=codec)
        calls, codec_answer = len(server.calls), server.answer
        server.answer = lambda call: codec_answer(call) if call.command == "POST" else call.whole(b'{"data": []}')
        with forked(old, tmp_path / "new.json", server) as fork:
            assert ask(fork.url, "unheard of", codec=codec) == [422]
            assert HTTP.get(f"{fork.url}/v1/models").status_code == 422
            assert len(server.calls) == calls
            assert ask(fork.url, "two", codec=codec) == ["old two"]
            assert HTTP.get(f"{fork.url}/v1/models").json() == {"data": []}
            assert [call.outcome for call in fork.calls] == ["missed", "missed", "recorded", "recorded"]


def test_what_the_replayed_part_ignores_the_new_recording_ignores(tmp_path):
    codec, old, new = CODECS["openai_chat"], tmp_path / "old.json", tmp_path / "new.json"
    old.write_bytes(orjson.dumps({"_version": 2, "_meta": {"normalise": {"mask": ["run-[0-9]+"]}}}))
    with CodecServer(codec, answers("old")) as server:
        with recording(old, server.url) as proxy:
            ask(proxy.url, "run-1", "run-2 b", codec=codec)
        with forked(old, new, server) as fork:
            assert ask(fork.url, "run-7", "run-8 b", codec=codec) == ["old run-1", "old run-8 b"]
    with offbook.serving(new) as replay:
        assert ask(replay.url, "run-5", "run-6 b", codec=codec) == ["old run-1", "old run-8 b"]


@pytest.mark.parametrize(
    ("path", "body", "sent"),
    [
        ("/v1/chat/completions", {"model": "a"}, "/v1/chat/completions"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", {}, "/v1beta/models/b%3A1:streamGenerateContent"),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude@1:rawPredict",
            {},
            "/v1/projects/p/locations/l/publishers/anthropic/models/b%3A1:rawPredict",
        ),
        ("/openai/deployments/mine/chat/completions", {}, "/openai/deployments/b%3A1/chat/completions"),
        ("/model/anthropic.claude%3A0/converse", {}, "/model/b%3A1/converse"),
        ("/model/anthropic.claude:0/invoke", {}, "/model/b%3A1/invoke"),
    ],
)
def test_the_model_is_replaced_where_a_protocol_has_it(path, body, sent):
    request = HttpRequest("POST", path, "", {}, orjson.dumps(body))
    found = with_model(UpstreamRequest(route_of("POST", path, {}), request, path, []), "b:1")
    assert found.raw_path == sent
    assert orjson.loads(found.request.body) == ({"model": "b:1"} if body else {})


def test_a_request_without_a_model_is_refused():
    request = HttpRequest("POST", "/v1/chat/completions", "", {}, b"{}")
    with pytest.raises(InputError, match="names no model"):
        with_model(UpstreamRequest(route_of("POST", request.path, {}), request, request.path, []), "b")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"live_from": 2}, "a fork needs a recording to leave and one to write"),
        ({"live_model": "m", "record": "new.json"}, "a fork needs a recording"),
        ({"live_from": 0, "record": "new.json"}, "0 is not the number of a call"),
        ({"live_from": 2, "record": "new.json", "record_mode": "new"}, "cannot record in mode 'new'"),
        ({"live_from": 2, "record": "old.json"}, "does not write to the recording that it follows"),
        ({"live_from": 2, "record": "new.json", "default_response": "Hi"}, "replays strictly"),
    ],
)
def test_options_that_make_no_fork_are_refused(options, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.json").write_text('{"_version": 2}')
    with pytest.raises(InputError, match=problem):
        offbook.serving("old.json", **options)
    assert not (tmp_path / "new.json").exists()
