"""Faults in-process: SDKs and HTTP clients must see what they see over a real socket."""

import asyncio

import anthropic
import httpx
import httpx2
import openai
import pytest

import offbook
from offbook import serving
from offbook.faults import parse_fault
from tests.faults.samples import SAMPLES

pytestmark = pytest.mark.xdist_group("openai_sdk")

RESPONSES = {"a": {"content": "Hello there, my friend"}}
PATIENCE_S = 30.0
SILENT = [
    "stream_stall after_chunks=2 for_ms=60000",
    "stream_truncate after_chunks=2 raise=TimeoutError",
    "timeout",
]
SILENT_S = 0.5
"""When a client gives up a silent server: long enough for what comes before the silence, on a busy machine too."""

FAULTS = [
    *SILENT,
    "connection_reset",
    "content_filter",
    "context_overflow",
    "doubled_tool_calls",
    "empty_response",
    "garbled_content",
    "http_error 400",
    "http_error 429",
    "http_error 503",
    "http_error 503 headers.x-should-retry=false",
    "invalid_tool_args",
    'malformed_response "not valid json"',
    "one_more_tool",
    "partial_response",
    "partial_response half",
    "previous_answer",
    "refusal",
    "shared_tool_id",
    "slow 1",
    "slow_drip 1",
    "stream_stall after_chunks=2 for_ms=1",
    "stream_truncate after_chunks=0 raise=ConnectionError",
    "stream_truncate after_chunks=0 raise=cut",
    "stream_truncate after_chunks=2 raise=ConnectionError",
    "stream_truncate after_chunks=2 raise=clean",
    "stream_truncate after_chunks=2 raise=cut",
    "stream_truncate after_chunks=2 raise=error_event",
    "stream_truncate after_chunks=2 raise=malformed",
    "timeout 20",
    "tool_call_fault get_weather",
    "unknown_tool",
    "wrong_content_type text/plain",
    "wrong_fields",
    "wrong_names",
    'wrong_shape "[]"',
    "wrong_types",
    "wrong_values",
    "ws_close 1013",
    "ws_reorder",
    "ws_repeat",
]


class OpenAI(openai.AsyncOpenAI):
    def _calculate_retry_timeout(self, *_):
        return 0.001


class Anthropic(anthropic.AsyncAnthropic):
    def _calculate_retry_timeout(self, *_):
        return 0.001


ASKED = [{"role": "user", "content": "Hi"}]


async def ask_openai(client, **options):
    answer = await client.chat.completions.create(model="m", messages=ASKED, **options)
    async for piece in pieces(answer):
        yield piece


async def ask_anthropic(client, **options):
    answer = await client.messages.create(model="m", max_tokens=9, messages=ASKED, **options)
    async for piece in pieces(answer):
        yield piece


async def pieces(answer):
    if not hasattr(answer, "__aiter__"):
        yield to_plain(answer)
        return
    async for piece in answer:
        yield to_plain(piece)


def to_plain(value):
    return value.to_dict() if hasattr(value, "to_dict") else value


ASKING = {"openai": ask_openai, "anthropic": ask_anthropic}
CASES = [(vendor, stream) for vendor in ASKING for stream in (False, True)]


async def outcome(question):
    """All that came, and at last the SDK's error with that of the HTTP client behind it."""
    got = []
    try:
        async for piece in question:
            got.append(piece)  # noqa: PERF401 - kept when it breaks off
    except Exception as error:
        got += [type(each) for each in (error, error.__cause__) if each is not None and not is_of_httpcore(each)]
    return got


def is_of_httpcore(error):
    return type(error).__module__.startswith("httpcore")


def attempts(session):
    return [(call.attempt, call.status, call.fault) for call in session.calls]


async def all_outcomes(inspected, http_client, address):
    """Return by fault what each kind of client got of a run whose first call it fails, and the attempts it made."""
    options = {"api_key": "none", "max_retries": 1, "http_client": http_client}
    sdks = {"openai": OpenAI(base_url=f"{address}/v1", **options), "anthropic": Anthropic(base_url=address, **options)}
    silent = await asyncio.gather(*(outcomes(inspected, sdks, line) for line in SILENT))
    rest = [await outcomes(inspected, sdks, line) for line in FAULTS[len(SILENT) :]]
    return dict(zip(FAULTS, [*silent, *rest], strict=True))


async def outcomes(inspected, sdks, line):
    timeout = SILENT_S if line in SILENT else PATIENCE_S
    sessions = [inspected.start_session(f"{line} {case}", faults=[f"call=1: {line}"]) for case in CASES]
    calls = [
        ASKING[vendor](sdks[vendor], stream=stream, timeout=timeout, extra_headers={"x-offbook-session": session.name})
        for (vendor, stream), session in zip(CASES, sessions, strict=True)
    ]
    got = await asyncio.gather(*map(outcome, calls))
    return [(each, attempts(session)) for each, session in zip(got, sessions, strict=True)]


@pytest.fixture(scope="module")
def server():
    with serving(responses=RESPONSES, retry_after_ms=1) as server:
        yield server


def test_every_fault_is_compared():
    compared = {type(parse_fault(f"call=1: {line}").fault) for line in FAULTS}
    assert compared == {type(fault) for fault in SAMPLES}


@pytest.fixture(scope="module")
def seen_over_a_socket(server):
    async def main():
        async with httpx2.AsyncClient() as client:
            return await all_outcomes(server, client, server.url)

    return offbook.run(main())


@pytest.fixture(scope="module")
def seen_in_process():
    stand_in = offbook.StandIn(responses=RESPONSES, retry_after_ms=1)

    async def main():
        async with stand_in.http_client() as client:
            return await all_outcomes(stand_in, client, "https://api.example")

    return offbook.run(main(), virtual_time=True)


@pytest.mark.parametrize("line", FAULTS)
def test_sdks_see_the_same_in_process_as_over_a_socket(seen_in_process, seen_over_a_socket, line):
    assert seen_in_process[line] == seen_over_a_socket[line]


ENDINGS = {
    "connection_reset": ([], "ReadError"),
    "timeout 1": ([], "ReadError"),
    "stream_truncate after_chunks=2 raise=ConnectionError": ([200], "ReadError"),
    "stream_truncate after_chunks=2 raise=cut": ([200], "RemoteProtocolError"),
    "stream_truncate after_chunks=2 raise=clean": ([200], None),
    "timeout": ([], "ReadTimeout"),
    "stream_truncate after_chunks=2 raise=TimeoutError": ([200], "ReadTimeout"),
    "slow_drip 1": ([200], None),
}
BODY = {"model": "m", "messages": ASKED, "stream": True}
URL = "https://api.example/v1/chat/completions"


def of_library(name, line):
    came, error = ENDINGS[line]
    return came, error and f"{name}.{error}"


def read_all(client, url=URL):
    """The status if one came, and the name of the error if there was one."""
    came = []
    try:
        with client.stream("POST", url, json=BODY) as response:
            came.append(response.status_code)
            assert all(response.iter_raw())
    except (httpx.TransportError, httpx2.TransportError) as error:
        return came, f"{type(error).__module__}.{type(error).__name__}"
    return came, None


async def read_all_async(client):
    came = []
    try:
        async with client.stream("POST", URL, json=BODY) as response:
            came.append(response.status_code)
            assert all([data async for data in response.aiter_raw()])
    except (httpx.TransportError, httpx2.TransportError) as error:
        return came, f"{type(error).__module__}.{type(error).__name__}"
    return came, None


@pytest.mark.parametrize("line", ENDINGS)
def test_clients_of_either_library_that_do_not_await_get_the_errors_of_a_socket(server, line):
    stand_in = offbook.StandIn(responses=RESPONSES, faults=[f"call={call}: {line}" for call in (1, 2)])
    timeout = 0.01 if ENDINGS[line][1] == "ReadTimeout" else PATIENCE_S
    with httpx2.Client(transport=stand_in.transport(), timeout=timeout) as client:
        assert read_all(client) == of_library("httpx2", line)
    with httpx.Client(transport=stand_in.httpx_transport(), timeout=timeout) as client:
        assert read_all(client) == of_library("httpx", line)
    if "Timeout" not in str(ENDINGS[line]):
        server.start_session("sync", faults=[f"call=1: {line}"])
        with httpx2.Client(timeout=timeout) as client:
            assert read_all(client, f"{server.session_url('sync')}/v1/chat/completions") == of_library("httpx2", line)


@pytest.mark.parametrize("line", ENDINGS)
def test_clients_of_either_library_that_await_get_them_too(line):
    stand_in = offbook.StandIn(responses=RESPONSES, faults=[f"call={call}: {line}" for call in (1, 2)])

    async def main():
        async with httpx2.AsyncClient(transport=stand_in.transport(), timeout=60) as client:
            assert await read_all_async(client) == of_library("httpx2", line)
        async with httpx.AsyncClient(transport=stand_in.httpx_transport(), timeout=60) as client:
            assert await read_all_async(client) == of_library("httpx", line)

    offbook.run(main(), virtual_time=True)


HELD = "call=1: held_until call=2"


CHAT = "https://api.openai.com/v1/chat/completions"


async def ask_both(stand_in, timeout_s):
    ended = []

    async def ask(client, number, timeout_s):
        body = {"model": "m", "messages": [{"role": "user", "content": str(number)}]}
        try:
            await client.post(CHAT, json=body, timeout=timeout_s)
            ended.append(number)
        except httpx2.ReadTimeout:
            ended.append("timeout")

    async with stand_in.http_client() as client:
        await asyncio.gather(ask(client, 1, timeout_s), ask(client, 2, None))
        return ended, [str(line) for line in stand_in.fired()], stand_in.unfired()


@pytest.mark.parametrize(("timeout_s", "ended"), [(None, [2, 1]), (1.0, ["timeout", 2])])
def test_an_answer_is_held_until_another_call_has_ended_but_not_beyond_a_timeout(timeout_s, ended):
    with offbook.StandIn(responses=RESPONSES, faults=[HELD, "call=2: slow 2000"]) as stand_in:
        order, fired, unfired = offbook.run(ask_both(stand_in, timeout_s), virtual_time=True)
    assert order == ended
    assert unfired == []
    assert fired == ["call=1 attempt=1: held_until call=2", "call=2 attempt=1: slow 2000"]


def test_an_answer_that_a_thread_waits_for_is_not_held_and_the_fault_has_not_fired():
    with offbook.StandIn(responses=RESPONSES, faults=[HELD]) as stand_in:
        client = openai.OpenAI(api_key="none", http_client=stand_in.sync_http_client())
        for word in ("1", "2"):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": word}])
        assert [str(line) for line in stand_in.unfired()] == [HELD]
        assert stand_in.fired() == []
