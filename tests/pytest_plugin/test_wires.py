"""The fixture `offbook` for agents that ask over HTTP: clients and servers bound to the test's recording."""

import json

import pytest

from tests.pytest_plugin.conftest import told

API = """
import json
import httpx2
import pytest

URL = "https://api.example/v1/chat/completions"


def answer(request):
    asked = json.loads(request.content)["messages"][-1]["content"]
    message = {"role": "assistant", "content": f"Hello {asked}"}
    return httpx2.Response(200, json={"model": "m", "choices": [{"index": 0, "message": message}]})


real = httpx2.MockTransport(answer)


def asked(name):
    return {"model": "m", "messages": [{"role": "user", "content": name}]}


def said(response):
    return response.json()["choices"][0]["message"]["content"]


def greet(client, name="Ada"):
    return said(client.post(URL, json=asked(name)))
"""
GREETS = """
def test_greets(offbook):
    assert greet(offbook.sync_http_client(real)) == "Hello Ada"
"""
REPLAYS = """
def test_greets(offbook):
    assert greet(offbook.sync_http_client()) == "Hello Ada"
"""
SERVED = "1 call served from recordings, 0 recorded live, 0 missed"


def write(project, text, *, path="test_it.py"):
    return project.write(path, API + text)


def entries(project):
    [file] = project.recordings()
    return [key for key in json.loads((project.folder / "recordings" / file).read_text()) if not key.startswith("_")]


def test_what_a_client_asks_is_recorded_once_and_then_replayed(project):
    write(project, GREETS)
    result = project.record()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 1 recorded live, 0 missed" in told(result)
    assert project.recordings() == ["test_it/test_greets.json"]
    write(project, REPLAYS)
    result = project.run()
    result.assert_outcomes(passed=1)
    assert SERVED in told(result)


def test_what_a_failed_test_asked_is_not_kept(project):
    write(project, GREETS + "    assert False\n")
    project.record().assert_outcomes(failed=1)
    assert project.recordings() == []


def test_without_a_recording_the_test_says_how_to_record_it(project):
    write(project, REPLAYS)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*hint: record it: pytest test_it.py::test_greets --offbook-record=once"])


def test_clients_that_await_wait_for_nothing_in_run(project):
    text = """
def test_greets(offbook):
    async def main():
        async with offbook.http_client(real) as client:
            return said(await client.post(URL, json=asked("Ada"), timeout=3600))

    if not offbook.is_recording:
        offbook.faults("call=1 attempt=1: timeout")
        with pytest.raises(httpx2.ReadTimeout):
            offbook.run(main())
    assert offbook.run(main()) == "Hello Ada"
    assert len(offbook.calls) == 1
"""
    write(project, text)
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_a_miss_fails_the_test_even_if_the_agent_swallows_it(project):
    write(project, GREETS)
    project.record()
    swallows = """
def test_greets(offbook):
    client = offbook.sync_http_client()
    assert client.post(URL, json=asked("Eve")).status_code == 422
    assert greet(client) == "Hello Ada"
"""
    write(project, swallows)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_greets.json: 1 call not recorded; the first, to /v1/chat/completions:",
            "*Eve*",
            "  hint: record the test again, *: pytest test_it.py::test_greets --offbook-record=fresh",
        ]
    )
    assert "1 call served from recordings, 0 recorded live, 1 missed" in told(result)


def test_a_lenient_test_gets_a_default_which_counts_as_missed(project):
    write(project, GREETS)
    project.record()
    lenient = """
@pytest.mark.offbook(strict=False)
def test_greets(offbook):
    assert greet(offbook.sync_http_client(), "Eve") == "Mock response"
"""
    write(project, lenient)
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 0 recorded live, 1 missed" in told(result)


TWO = """
def test_greets(offbook):
    client = offbook.sync_http_client(real)
    assert greet(client) == "Hello Ada"
    assert greet(client, "Eve") == "Hello Eve"
"""


def test_entries_that_no_client_used_are_told_and_fail_the_test_if_asked(project):
    write(project, TWO)
    project.record()
    write(project, REPLAYS)
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["not used in *test_greets.json: *[[]0[]]"])
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)
    assert "1 entry not used" in told(result)


def test_entries_count_as_used_whoever_used_them(project):
    write(project, TWO)
    project.record()
    shared = """
def test_greets(offbook):
    client = offbook.sync_http_client()
    assert said(client.post(URL, json=asked("Ada"), headers={"x-offbook-session": "a"})) == "Hello Ada"
    assert offbook.run(offbook.provider.complete(asked("Eve")["messages"], model="m")).content == "Hello Eve"
    assert offbook.unused() == []
"""
    write(project, shared)
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(passed=1)
    assert "2 calls served" in told(result)


def test_nothing_is_used_by_a_stand_in_that_nobody_asked(project):
    write(project, GREETS)
    project.record()
    write(project, "\ndef test_greets(offbook):\n    offbook.http_client()\n")
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)


def test_faults_strike_clients_from_when_they_are_asked_for(project):
    write(project, TWO)
    project.record()
    broken = """
def test_greets(offbook):
    client = offbook.sync_http_client()
    assert greet(client) == "Hello Ada"
    offbook.faults("tool=search: tool_lost", "call=2: http_error 503")
    assert client.post(URL, json=asked("Eve")).status_code == 503
    assert [str(planned) for planned in offbook.stand_in.fired()] == ["call=2 attempt=1: http_error 503"]
"""
    write(project, broken)
    project.run().assert_outcomes(passed=1)


def test_a_miss_behind_a_fault_does_not_say_to_record_again(project):
    write(project, TWO)
    project.record()
    broken = """
def test_greets(offbook):
    offbook.faults("call=1: unknown_tool")
    client = offbook.sync_http_client()
    assert client.post(URL, json=asked("Ada")).json()["choices"][0]["message"]["tool_calls"]
    assert client.post(URL, json=asked("no such tool")).status_code == 422
"""
    write(project, broken)
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "a fault struck before this" in told(result)
    assert "record the test again" not in told(result)


def test_a_server_records_from_where_the_environment_says(project):
    text = """
import offbook as library


def test_greets(offbook, monkeypatch):
    with library.serving(responses={"a": {"content": "Hello Ada"}}) as real:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{real.url}/v1")
        with offbook.serving() as server:
            assert said(httpx2.post(f"{server.url}/v1/chat/completions", json=asked("Ada"))) == "Hello Ada"
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        with offbook.serving(upstreams={"openai": f"{real.url}/v1"}) as server:
            assert said(httpx2.post(f"{server.url}/v1/chat/completions", json=asked("Ada"))) == "Hello Ada"
    assert len(real.calls) == 2 * offbook.is_recording
"""
    write(project, text)
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_a_server_records_and_replays_like_a_client(project):
    text = """
import offbook as library


def test_greets(offbook):
    with library.serving(responses={"a": {"content": "Hello Ada"}}) as real:
        with offbook.serving(upstreams={"openai": f"{real.url}/v1"}, upstream_keys={"openai": "k"}) as server:
            assert server.env["OPENAI_BASE_URL"] == f"{server.url}/v1"
            response = httpx2.post(f"{server.url}/v1/chat/completions", json=asked("Ada"))
            assert said(response) == "Hello Ada"
    assert len(real.calls) == offbook.is_recording
"""
    write(project, text)
    project.record().assert_outcomes(passed=1)
    assert len(entries(project)) == 1
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(passed=1)
    assert SERVED in told(result)


@pytest.mark.parametrize("mode", ["new", "all", "append"])
def test_record_modes_are_those_of_providers(project, mode):
    write(project, GREETS)
    project.record()
    write(project, TWO)
    project.run(f"--offbook-record={mode}").assert_outcomes(passed=1)
    write(project, TWO.replace("real", ""))
    result = project.run()
    result.assert_outcomes(passed=1)
    left = {"new": False, "all": False, "append": True}[mode]
    assert ("not used in" in told(result)) == left
