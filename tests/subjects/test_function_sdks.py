"""Exploring a function whose agent is on a vendor's SDK: in virtual time, with the faults of the wire.

A sound agent meets some faults in `make test`, and every one in `make zoo`.
"""

import asyncio
import json
import sys
import time

import pytest

from offbook import effect, explore_function, tool
from offbook.explore.explorer import Explorer
from offbook.explore.options import WIRE_VARIANTS, Deadlines, ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.subjects.program.program import ProgramSubject
from offbook.tools.effects import ToolDeclaration
from tests.every_case import EVERY_CASE, sampled
from tests.explore.runs import write_recording
from tests.subjects.sdk_agents import ASKED, PARAMETERS, RECORDING, GaveUpError, agent, agents

aiohttp = openai = requests = None  # see `load_sdks`
pytestmark = pytest.mark.loads_sdk
REPEATED = ("repeated effect", ("refund(order=42) ran 2 times instead of once",))
SOUND_FAULTS = "all" if EVERY_CASE else "connection_reset,http_error 429,stream_truncate,wrong_content_type"
SDKS = [pytest.param(*each, id=f"{each[0]} {'streamed' if each[1] else 'whole'}") for each in sampled(agents(), step=3)]


@pytest.fixture(scope="module", autouse=True)
def load_sdks():
    """Load what agents use when the first of them runs, not before all tests of this process."""
    global aiohttp, openai, requests  # noqa: PLW0603 - what agents name
    import aiohttp  # noqa: PLC0415
    import openai  # noqa: PLC0415
    import requests  # noqa: PLC0415


@pytest.fixture
def recording(tmp_path):
    return write_recording(tmp_path / "refund.json", RECORDING)


def explore(sdk, recording, *, streamed, careless, **options):
    def work(offbook):
        return agent(sdk, offbook, streamed=streamed, careless=careless)

    return explore_function(work, recording, declared=[GaveUpError], workers=1, **options)


@pytest.mark.parametrize(("sdk", "streamed"), SDKS)
def test_who_starts_over_refunds_twice_and_a_sound_agent_is_not_accused(sdk, streamed, recording):
    exploration = explore(sdk, recording, streamed=streamed, careless=True, faults="connection_reset,http_error 400")
    found = {str(each.case): (each.title, each.evidence[:1]) for each in exploration.findings}
    assert found["call=2: connection_reset"] == REPEATED
    assert found["call=2 attempt=1: http_error 400"] == REPEATED
    sound = explore(sdk, recording, streamed=streamed, careless=False, faults=SOUND_FAULTS)
    assert [(str(each.case), each.title, each.evidence) for each in sound.findings] == []
    assert ("stream_truncate cut, start" in sound.columns) is streamed
    assert "wrong_content_type" in sound.columns


PARITY_FAULTS = "connection_reset"


@pytest.mark.parametrize(("sdk", "streamed"), sampled([("openai", False), ("anthropic", True)]))
def test_the_findings_are_those_of_the_same_agent_as_a_program(sdk, streamed, recording):
    here = explore(sdk, recording, streamed=streamed, careless=True, faults=PARITY_FAULTS)
    command = [sys.executable, "-m", "tests.subjects.sdk_agents", sdk, "streamed" if streamed else "whole", "careless"]
    settings = ExploreSettings(declared=("75",), runs_tools=True)
    options = ExploreOptions(variants=select_variants(PARITY_FAULTS, WIRE_VARIANTS))
    with ProgramSubject(command, replay=recording, settings=settings) as subject:
        there = Explorer(subject, options).explore()
    assert {str(each.case): each.title for each in here.results} == {
        str(each.case): each.title for each in there.results
    }
    assert [each.evidence for each in here.findings] == [each.evidence for each in there.findings] != []


WAITS = "http_error 429,timeout,slow"


async def patient(offbook):
    client = openai.AsyncOpenAI(api_key="none", http_client=offbook.http_client(), timeout=15)
    said = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    return said.choices[0].message.content


def test_waits_and_timeouts_of_an_sdk_pass_in_virtual_time(tmp_path):
    hello = write_recording(tmp_path / "hello.json", {"_version": 2, "agent": [{"content": "Hello!"}]})
    exploration = explore_function(patient, hello, faults=WAITS, declared=["APIError"], workers=1)
    assert exploration.findings == []
    took_s = {str(each.case): each.run.took_s for each in exploration.results}
    assert took_s["call=1: http_error 429 headers.retry-after=3"] == 6.0
    assert 45.0 < took_s["call=1: timeout 60000"] < 60.0
    recovered = next(each for each in exploration.results if str(each.case) == "call=1 attempt=1: timeout 60000")
    assert recovered.title == "recovered"
    assert recovered.run.paths == {"retry": 1}


def test_who_waits_for_longer_than_a_user_does_hangs(tmp_path):
    def waits(offbook):
        client = openai.OpenAI(api_key="none", http_client=offbook.sync_http_client())
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}]).id

    hello = write_recording(tmp_path / "hello.json", {"_version": 2, "agent": [{"content": "Hello!"}]})
    first = explore_function(waits, hello, faults="timeout", workers=1).findings[0]
    text = "it waited 20 s for the answer to call 1: no timeout is set, or a longer one (OpenAI(timeout=…))"
    assert first.title == "hung"
    assert first.evidence[0].partition(";")[0] == text
    deadlines = Deadlines(virtual_s=7200.0)
    longer = explore_function(waits, hello, faults="timeout", declared=["APIError"], deadlines=deadlines, workers=1)
    assert longer.findings == []


def converse(client, run):
    """Ask until there is an answer, and run what is asked for."""
    messages = [{"role": "user", "content": ASKED}]
    tools = [{"type": "function", "function": {"name": "refund", "parameters": PARAMETERS}}]
    while True:
        said = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
        if not said.tool_calls:
            return said.content
        calls = [
            {"id": call.id, "type": "function", "function": call.function.model_dump()} for call in said.tool_calls
        ]
        messages.append({"role": "assistant", "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": run(**json.loads(call["function"]["arguments"]))}
            for call in calls
        ]


def starting_over(tools_of):
    """Return an agent that starts over once, and whose tools are what `tools_of` makes of the harness."""

    def work(offbook):
        client = openai.OpenAI(api_key="none", http_client=offbook.sync_http_client(), max_retries=0)
        run = tools_of(offbook)
        try:
            return converse(client, run)
        except openai.APIError:
            return converse(client, run)

    return work


@tool(name="refund", side_effect=True)
def refund_once(order: int) -> str:
    """Give the money back."""
    return f"order {order} is refunded"


def reporting(order):
    effect("refund", order=order)
    return "done"


@pytest.mark.parametrize(
    ("tools_of", "declared", "verdict"),
    [
        (lambda offbook: offbook.tools(refund_once)["refund"], {}, "repeated effect"),
        (lambda _: reporting, {}, "repeated effect"),
        (lambda _: lambda order: "done", {}, "possible repeated effect"),
        (
            lambda _: lambda order: "done",
            {"refund": ToolDeclaration(side_effect=True, idempotent="order")},
            "recovered",
        ),
        (lambda _: lambda order: "done", {"refund": ToolDeclaration(read_only=True)}, "recovered"),
    ],
    ids=["wrapped", "reported", "inferred", "idempotent", "read-only"],
)
def test_effects_are_observed_reported_or_inferred_as_they_are_declared(tools_of, declared, verdict, recording):
    exploration = explore_function(
        starting_over(tools_of), recording, faults="connection_reset", tools=declared, workers=1
    )
    verdicts = {str(each.case): each.title for each in exploration.results}
    assert verdicts["call=2 attempt=1: connection_reset"] == verdict


MIXED = {"plan": {"content": "two steps"}, "act": {"content": "done"}, "check": {"content": "fine"}}


async def plans_and_acts(offbook, *, careless):
    """Asks a provider, then an API, then the provider again. If the API fails, it goes on by its plan, or gives up."""
    plan = await offbook.provider.complete([{"role": "user", "content": "Plan"}], "m", step_id="plan")
    body = {"model": "m", "messages": [{"role": "user", "content": plan.content}]}
    with offbook.sync_http_client() as client:
        answer = client.post("https://api.openai.com/v1/chat/completions", json=body, headers={"x-offbook-step": "act"})
    if answer.status_code != 200 and not careless:
        raise GaveUpError(f"HTTP {answer.status_code}")
    offbook.tools(pay)["pay"].callable(order=42)
    return (await offbook.provider.complete([{"role": "user", "content": "Check"}], "m", step_id="check")).content


@tool(side_effect=True)
def pay(order: int) -> str:
    return f"paid {order}"


@pytest.mark.parametrize("careless", [False, True])
def test_a_run_on_a_provider_and_on_http_clients_is_one_run(careless, tmp_path):
    recording = write_recording(tmp_path / "mixed.json", MIXED)

    async def work(offbook):
        return await plans_and_acts(offbook, careless=careless)

    exploration = explore_function(work, recording, faults="http_error 500", declared=[GaveUpError], workers=1)
    assert [(call.row, call.is_over_http) for call in exploration.clean.calls] == [
        ("1 plan", False),
        ("2 act", True),
        ("3 check", False),
    ]
    assert exploration.clean.result == "fine"
    verdicts = {str(each.case): each.verdict for each in exploration.results if each.case.lines[0].at.attempt == 1}
    assert verdicts["step=act call=1 attempt=1: http_error 500"] == ("undetected" if careless else "failed cleanly")
    assert verdicts["step=check call=1 attempt=1: http_error 500"] == "failed partway"


async def last_answer_wins(offbook):
    chosen = []

    async def ask(client, word):
        body = {"model": "m", "messages": [{"role": "user", "content": word}]}
        said = await client.post("https://api.openai.com/v1/chat/completions", json=body)
        chosen.append(said.json()["choices"][0]["message"]["content"])

    async with offbook.http_client() as client:  # not an SDK: those first ask a thread for the name of the platform
        await asyncio.gather(ask(client, "rail"), ask(client, "bus"))
    return offbook.tools(book)["book"].callable(by=chosen[-1])


@tool(side_effect=True)
def book(by: str) -> str:
    """Book a journey."""
    return f"booked by {by}"


OFFERS = {"_version": 2, "agent": [{"content": "rail"}, {"content": "bus"}]}


def test_answers_to_async_http_clients_are_held_and_their_run_is_cancelled(tmp_path):
    path = write_recording(tmp_path / "offers.json", OFFERS)
    results = explore_function(last_answer_wins, path, faults="orders", workers=1).results
    verdicts = {str(each.case): each.title for each in results}
    assert verdicts == {
        "call=1 attempt=1: cancelled": "failed cleanly",
        "call=2 attempt=1: cancelled": "failed cleanly",
        "tool=book call=1: cancelled": "not reached",
        "tool=book call=1: cancelled after": "not reached",
        "call=1 attempt=1: held_until call=2": "wrong effect",
    }


def test_a_synchronous_sdk_blocks_so_that_no_order_reaches_it(tmp_path):
    async def blocking(offbook):
        client = openai.OpenAI(api_key="none", http_client=offbook.sync_http_client())
        for word in ("rail", "bus"):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": word}])

    path = write_recording(tmp_path / "offers.json", OFFERS)
    results = explore_function(blocking, path, faults="orders", workers=1).results
    assert {str(each.case): each.title for each in results} == {
        "call=1 attempt=1: cancelled": "not reached",
        "call=2 attempt=1: cancelled": "not reached",
    }


def test_an_answer_over_http_is_held_until_a_tool_has_ended_and_the_other_way_round(tmp_path):
    @tool
    async def look(up: str) -> str:
        """Look something up."""
        await asyncio.sleep(3)
        return up

    async def both(offbook):
        client = openai.AsyncOpenAI(api_key="none", http_client=offbook.http_client(), timeout=5)
        ended = []

        async def ask():
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "rail"}])
            ended.append("model")

        async def look_up():
            await offbook.tools(look)["look"].callable(up="bus")
            ended.append("tool")

        await asyncio.gather(ask(), look_up())
        return ended

    path = write_recording(tmp_path / "offers.json", OFFERS)
    exploration = explore_function(both, path, faults="held_until", workers=1)
    (result,) = exploration.results
    assert exploration.clean.result == ["model", "tool"]
    assert result.run.result == ["tool", "model"]
    assert str(result.case) == "call=1 attempt=1: held_until tool=look call=1"


URL = "https://api.openai.com/v1/chat/completions"
GREETING = {"_version": 2, "a": {"content": "Hello!"}}
HI = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def by_requests(harness):
    """Ask with a client that nobody has given anything to, and try once more after a minute."""
    with harness.intercept():
        for wait_s in (60, 0):
            try:
                answer = requests.post(URL, json=HI, timeout=5)
                answer.raise_for_status()
                return answer.json()["choices"][0]["message"]["content"]
            except requests.RequestException:
                time.sleep(wait_s)
    raise GaveUpError


async def by_aiohttp(harness):
    harness.intercept()
    timeout = aiohttp.ClientTimeout(sock_read=5)
    async with aiohttp.ClientSession(timeout=timeout) as client:
        for wait_s in (60, 0):
            try:
                async with client.post(URL, json=HI, raise_for_status=True) as answer:
                    return (await answer.json())["choices"][0]["message"]["content"]
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(wait_s)
    raise GaveUpError


@pytest.mark.parametrize("agent", [by_requests, by_aiohttp])
def test_an_intercepted_client_is_explored_in_virtual_time(agent, tmp_path):
    recording = write_recording(tmp_path / "run.json", GREETING)
    faults = "timeout,connection_reset,http_error 503"
    exploration = explore_function(agent, recording, declared=[GaveUpError], workers=1, faults=faults)
    verdicts = {str(each.case): each.title for each in exploration.results}
    assert verdicts == {
        f"call=1{attempt}: {fault}": verdict
        for fault in ("connection_reset", "http_error 503", "timeout 60000")
        for attempt, verdict in ((" attempt=1", "recovered"), ("", "failed cleanly"))
    }
    assert requests.adapters.HTTPAdapter.send.__module__ == "requests.adapters"
