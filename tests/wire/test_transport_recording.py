"""Recording in-process: the real API is asked through a client's own transport, and heard."""

import asyncio
import gzip
import json

import httpx
import httpx2
import openai
import pytest

import offbook
from offbook.errors import InputError
from offbook.wire.proxy.recorder import MAX_KEPT_BYTES

pytestmark = pytest.mark.xdist_group("openai_sdk")

HI = [{"role": "user", "content": "Hi"}]
BODY = {"model": "m", "messages": HI}
URL = "https://api.example/v1/chat/completions"
WHOLE = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}}]}
FRAMES = [
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}\n\n',
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]


class Api(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A real API: streams the frames, each after a second, or raises `error` behind them."""

    def __init__(self, frames=FRAMES, *, error=None, headers=None):
        self.parsed = []
        self.frames, self.error = frames, error
        self.headers = headers or {"content-type": "text/event-stream"}

    @property
    def transport(self):
        return httpx2.MockTransport(self._answer)

    def _answer(self, request):
        self.parsed.append(request)
        return httpx2.Response(200, headers=self.headers, stream=self)

    def __iter__(self):
        yield from self.frames
        if self.error is not None:
            raise self.error

    async def __aiter__(self):
        for frame in self.frames:
            await asyncio.sleep(1)
            yield frame
        if self.error is not None:
            raise self.error


def whole_api(**headers):
    return httpx2.MockTransport(lambda request: httpx2.Response(200, json=WHOLE, headers=headers))


def entries(recording):
    return [entry for key, entry in json.loads(recording.read_text()).items() if not key.startswith("_")]


def only_entry(recording):
    [entry] = entries(recording)
    return entry[0] if isinstance(entry, list) else entry


@pytest.fixture
def recording(tmp_path):
    return tmp_path / "run.json"


def ask_openai(http_client, **options):
    client = openai.OpenAI(api_key="secret", http_client=http_client, max_retries=0)
    return client.chat.completions.create(model="m", messages=HI, **options)


def test_what_is_recorded_through_a_client_is_replayed_to_one(recording):
    with offbook.sync_http_client(record=recording, transport=whole_api()) as client:
        recorded = ask_openai(client)
    with offbook.sync_http_client(recording) as client:
        assert ask_openai(client) == recorded
    assert "secret" not in recording.read_text()
    assert only_entry(recording)["content"] == "Hello"


def test_the_request_goes_to_its_own_address_as_it_is_without_words_to_the_stand_in(recording):
    api = Api()
    client = offbook.sync_http_client(record=recording, transport=api.transport)
    headers = {"authorization": "Bearer k", "x-offbook-step": "greet", "x-mine": "1", "accept-encoding": "br"}
    assert client.post("https://api.example/s/one/v1/chat/completions?a=b", json=BODY, headers=headers).is_success
    [parsed_request] = api.parsed
    assert parsed_request.url == "https://api.example/v1/chat/completions?a=b"
    assert json.loads(parsed_request.content) == BODY
    assert parsed_request.headers["authorization"] == "Bearer k"
    assert parsed_request.headers["x-mine"] == "1"
    assert parsed_request.headers["accept-encoding"] == "identity"
    assert parsed_request.headers["host"] == "api.example"
    assert "x-offbook-step" not in parsed_request.headers
    client.close()
    assert list(json.loads(recording.read_text()))[-1] == "greet"


def test_a_stream_is_passed_on_as_it_comes_and_recorded_with_its_times(recording):
    stand_in = offbook.StandIn(record=recording)

    async def main():
        client = openai.AsyncOpenAI(api_key="k", http_client=stand_in.http_client(Api().transport))
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        came_at_s = [asyncio.get_running_loop().time() async for _ in stream]
        await client.close()
        return came_at_s

    first_s, second_s = offbook.run(main(), virtual_time=True)
    assert second_s - first_s == pytest.approx(1)
    entry = only_entry(recording)
    assert [frame[1].encode() for frame in entry["wire"]["frames"]] == FRAMES
    assert [round(frame[0], -3) for frame in entry["wire"]["frames"]] == [1000, 2000, 3000]
    assert entry["content"] == "Hello"
    assert "fault" not in entry
    assert [call.outcome for call in stand_in.calls] == ["recorded"]


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (httpx2.ReadTimeout("late"), "TimeoutError"),
        (httpx2.RemoteProtocolError("cut"), "cut"),
        (httpx2.ReadError("reset"), "ConnectionError"),
    ],
)
def test_an_answer_that_breaks_off_breaks_off_for_the_client_and_in_the_recording(recording, error, ending):
    body = BODY | {"stream": True}
    broken = Api(FRAMES[:1], error=error).transport
    with offbook.sync_http_client(record=recording, transport=broken) as client, pytest.raises(type(error)):
        client.post(URL, json=body)
    assert only_entry(recording)["fault"] == {"type": "stream_truncate", "after_chunks": 1, "raise": ending}
    with offbook.sync_http_client(recording) as client, pytest.raises(type(error)):
        client.post(URL, json=body, timeout=0.01)


def test_no_answer_at_all_is_recorded_too(recording):
    def refuse(request):
        raise httpx2.ConnectError("refused")

    stand_in = offbook.StandIn(record=recording)
    with stand_in.sync_http_client(httpx2.MockTransport(refuse)) as client, pytest.raises(httpx2.ConnectError):
        client.post(URL, json=BODY)
    assert only_entry(recording)["fault"]["type"] == "connection_reset"
    assert [(call.outcome, call.status) for call in stand_in.calls] == [("recorded", None)]
    assert stand_in.calls[0].failure.startswith("no answer from the API")


def test_a_client_that_leaves_in_the_middle_leaves_what_came_by_then(recording):
    stand_in = offbook.StandIn(record=recording)

    async def main():
        client = stand_in.http_client(Api().transport)
        async with client.stream("POST", URL, json=BODY | {"stream": True}) as response:
            async for _ in response.aiter_raw():
                break
        await client.aclose()

    offbook.run(main(), virtual_time=True)
    assert [frame[1].encode() for frame in only_entry(recording)["wire"]["frames"]] == FRAMES[:1]


def test_a_client_that_gives_up_waiting_is_noted_and_nothing_is_recorded(recording):
    stand_in = offbook.StandIn(record=recording)

    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            await asyncio.sleep(3600)

    async def main():
        client = stand_in.http_client(Silent())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.post(URL, json=BODY), 60)
        await client.aclose()

    offbook.run(main(), virtual_time=True)
    assert entries(recording) == []
    assert [(call.outcome, call.status) for call in stand_in.calls] == [("passed", None)]


def test_a_fault_fires_at_the_client_and_not_the_recording(recording):
    stand_in = offbook.StandIn(record=recording, faults=["call=1: partial_response", "call=2: http_error 503"])
    client = stand_in.sync_http_client(whole_api())
    assert ask_openai(client).choices[0].finish_reason == "length"
    assert client.post(URL, json=BODY | {"model": "other"}).status_code == 503
    client.close()
    assert only_entry(recording)["content"] == "Hello"
    assert [call.fault for call in stand_in.calls] == ["partial_response", "http_error"]


def test_a_fault_fires_at_clients_that_await_too(recording):
    stand_in = offbook.StandIn(record=recording, faults=["call=1: stream_truncate after_chunks=1"])

    async def main():
        client = stand_in.http_client(Api().transport)
        with pytest.raises(httpx2.ReadError):
            await client.post(URL, json=BODY | {"stream": True})
        await client.aclose()

    offbook.run(main(), virtual_time=True)
    assert "fault" not in only_entry(recording)


def test_a_fault_leaves_alone_what_has_failed_by_itself(recording):
    stand_in = offbook.StandIn(record=recording, faults=["call=1: partial_response"])
    down = httpx2.MockTransport(lambda request: httpx2.Response(503, json={"error": {"message": "down"}}))
    with stand_in.sync_http_client(down) as client:
        assert client.post(URL, json=BODY).status_code == 503
    assert [(call.status, call.fault) for call in stand_in.calls] == [(503, None)]


def test_an_answer_too_large_to_be_held_is_passed_on_and_not_kept_and_cannot_be_broken(recording):
    stand_in = offbook.StandIn(record=recording, faults=["call=2: partial_response"])
    large = Api([b"x" * (MAX_KEPT_BYTES + 1)], headers={"content-type": "application/json"})
    with stand_in.sync_http_client(large.transport) as client:
        assert len(client.post(URL, json=BODY).content) == MAX_KEPT_BYTES + 1
        assert client.post(URL, json=BODY | {"model": "faulted"}).status_code == 502
    assert [call.outcome for call in stand_in.calls] == ["passed", "passed"]
    assert entries(recording) == []


def test_an_answer_that_comes_packed_is_recorded_unpacked(recording):
    packed = gzip.compress(json.dumps(WHOLE).encode())
    api = Api([packed[:9], packed[9:]], headers={"content-type": "application/json", "content-encoding": "gzip"})
    with offbook.sync_http_client(record=recording, transport=api.transport) as client:
        assert client.post(URL, json=BODY).json() == WHOLE
    assert json.loads(only_entry(recording)["wire"]["body"]) == WHOLE


def test_what_is_there_is_not_asked_again_in_the_mode_new(recording):
    with offbook.sync_http_client(record=recording, transport=whole_api()) as client:
        ask_openai(client)
    api = Api()
    stand_in = offbook.StandIn(record=recording, record_mode="new")
    with stand_in.sync_http_client(api.transport) as client:
        ask_openai(client)
        client.post(URL, json=BODY | {"stream": True, "messages": [{"role": "user", "content": "More"}]})
    assert [call.outcome for call in stand_in.calls] == ["served", "recorded"]
    assert len(api.parsed) == 1
    assert len(entries(recording)) == 2


def test_clients_of_httpx_are_recorded_and_get_faults_too(recording):
    stand_in = offbook.StandIn(record=recording, faults=["call=2: partial_response", "call=4: partial_response"])
    answering = httpx.MockTransport(lambda request: httpx.Response(200, json=WHOLE))
    with httpx.Client(transport=stand_in.httpx_transport(live=answering)) as client:
        assert client.post(URL, json=BODY).json() == WHOLE
        assert client.post(URL, json=BODY | {"model": "faulted"}).json() != WHOLE

    async def main():
        async with httpx.AsyncClient(transport=stand_in.httpx_transport(live_async=answering)) as client:
            assert (await client.post(URL, json=BODY | {"model": "n"})).json() == WHOLE
            assert (await client.post(URL, json=BODY | {"model": "faulted too"})).json() != WHOLE

    offbook.run(main())
    assert [call.outcome for call in stand_in.calls] == ["recorded", "fault", "recorded", "fault"]


def test_a_step_that_cannot_be_a_key_is_refused_before_anything_is_asked(recording):
    api = Api()
    client = offbook.sync_http_client(record=recording, transport=api.transport)
    with pytest.raises(InputError, match="step"):
        client.post(URL, json=BODY, headers={"x-offbook-step": "_tools"})
    client.close()
    assert api.parsed == []


def test_without_a_transport_the_network_is_asked(recording):
    with offbook.serving(responses={"a": {"content": "Hello"}}) as server:
        url = f"{server.url}/v1/chat/completions"
        with offbook.sync_http_client(record=recording) as client:
            assert client.post(url, json=BODY).is_success

        async def main():
            async with offbook.http_client(record=recording) as client:
                assert (await client.post(url, json=BODY | {"model": "n"})).is_success

        offbook.run(main())
        stand_in = offbook.StandIn(record=recording)
        with httpx.Client(transport=stand_in.httpx_transport()) as client:
            assert client.post(url, json=BODY | {"model": "o"}).is_success

        async def main_of_httpx():
            async with httpx.AsyncClient(transport=stand_in.httpx_transport()) as client:
                assert (await client.post(url, json=BODY | {"model": "p"})).is_success

        offbook.run(main_of_httpx())
    assert [entry["content"] for entry in entries(recording)] == ["Hello"] * 4


def test_a_block_that_fails_leaves_the_recording_as_it_was(recording):
    def ask(model):
        with offbook.StandIn(record=recording, record_mode="fresh") as stand_in:
            stand_in.sync_http_client(whole_api()).post(URL, json=BODY | {"model": model})
            if model == "new":
                raise KeyError("no")

    ask("old")
    with pytest.raises(KeyError):
        ask("new")
    assert [entry["request"]["model"] for entry in entries(recording)] == ["old"]
