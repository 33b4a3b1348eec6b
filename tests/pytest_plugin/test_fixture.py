"""The fixture `offbook`: what it gives to a test, recorded and replayed."""

import json

import pytest

from tests.pytest_plugin.conftest import printed_output
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer

GREETS = """
def test_greets(offbook):
    offbook.live(Echo)
    assert greet(offbook) == "Hello Ada"
"""
CANNOT_RECORD = """
def test_greets(offbook):
    assert greet(offbook) == "Hello Ada"
"""


def test_a_test_is_recorded_once_and_then_replayed_without_its_model(project):
    project.test(GREETS)
    project.record().assert_outcomes(passed=1)
    assert project.recordings() == ["test_it/test_greets.json"]
    project.test(CANNOT_RECORD)
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "1 call served from recordings, 0 recorded live, 0 missed" in printed_output(result)


def test_the_fixture_has_the_names_of_the_package_that_it_hides(project):
    project.test(
        """
import offbook

def test_it(offbook):
    assert offbook.effect("refund", order=42) is None
    assert issubclass(offbook.RecordingMismatchError, offbook.OffbookError)
    with pytest.raises(AttributeError, match="no attribute 'provder'. did you mean 'provider'?"):
        offbook.provder
"""
    )
    project.run().assert_outcomes(passed=1)


def test_a_recording_that_is_not_there_is_an_error_that_says_how_to_record_it(project):
    project.test(CANNOT_RECORD)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*InputError: */recordings/test_it/test_greets.json: no such recording",
            "E*hint: record it: pytest test_it.py::test_greets --offbook-record=once",
        ]
    )
    assert "pytest_plugin" not in printed_output(result).replace("offbook.pytest_plugin.fixture", "")


def test_a_recording_that_the_marker_misspells_gets_the_closest_name(project):
    project.write("greeting.json", "{}")
    project.test(CANNOT_RECORD.replace("def test_", '@pytest.mark.offbook(recording="greting.json")\ndef test_'))
    result = project.run()
    result.stdout.fnmatch_lines(["E*hint: did you mean 'greeting.json'[?] record it: pytest *"])


def test_a_replay_refuses_a_request_that_was_not_recorded_and_counts_it(project):
    project.test(GREETS)
    project.record()
    project.test(GREETS.replace("greet(offbook)", "greet(offbook, 'Eve')"))
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "RecordingMismatchError" in printed_output(result)
    assert "0 calls served from recordings, 0 recorded live, 1 missed" in printed_output(result)


def test_a_lenient_test_is_answered_with_a_default_which_counts_as_missed(project):
    project.test(GREETS)
    project.record()
    project.test(
        """
@pytest.mark.offbook(strict=False)
def test_greets(offbook):
    assert greet(offbook, step="other", name="Eve") == "Mock response"
"""
    )
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 0 recorded live, 1 missed" in printed_output(result)


def test_async_tests_await_the_provider(project):
    project.test(
        """
async def test_greets(offbook):
    offbook.live(Echo())
    async with offbook.provider as provider:
        response = await provider.complete(ADA, model="m", step_id="greet")
    assert response.content == "Hello Ada"
    assert offbook.unused() == []
"""
    )
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_run_inside_an_async_test_says_to_await(project):
    project.test(
        """
async def test_greets(offbook):
    greet(offbook)
"""
    )
    project.write("recordings/test_it/test_greets.json", '{"_version": 2, "greet": {"content": "Hello"}}')
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "EventLoopError" in printed_output(result)


def test_waiting_costs_nothing_when_replaying_and_is_real_when_recording(project):
    project.test(
        """
import time

async def wait(offbook, delay_s):
    started_s = asyncio.get_running_loop().time()
    await offbook.provider.complete(ADA, model="m", step_id="greet")
    await asyncio.sleep(delay_s)
    return asyncio.get_running_loop().time() - started_s

def test_waits(offbook):
    offbook.live(Echo)
    delay_s = 0.01 if offbook.is_recording else 3600
    started_s = time.monotonic()
    assert offbook.run(wait(offbook, delay_s)) >= delay_s
    took_s = time.monotonic() - started_s
    assert took_s >= 0.01 if offbook.is_recording else took_s < 600
"""
    )
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_the_calls_and_what_was_left_can_be_looked_at(project):
    project.test(
        """
def test_greets(offbook):
    greet(offbook)
    assert [(call.step_id, call.key) for call in offbook.calls] == [("greet", "greet")]
    assert [(left.key, left.position) for left in offbook.unused()] == [("other", 0), ("_tools.add", 0)]
    assert repr(offbook) == f"<offbook replaying {offbook.recording}>"

@pytest.fixture(autouse=True)
def tools(offbook):
    offbook.tools()
"""
    )
    recording = '{"_version": 2, "greet": {"content": "Hello"}, "other": {}, "_tools": {"add": [{"result": 3}]}}'
    project.write("recordings/test_it/test_greets.json", recording)
    project.run().assert_outcomes(passed=1)


def test_recorded_calls_are_reported_as_such(project):
    project.test(
        """
def test_greets(offbook):
    offbook.live(Echo)
    greet(offbook)
    assert [(call.step_id, call.provider) for call in offbook.calls] == [("greet", "echo")]
    assert offbook.unused() == []
    assert repr(offbook).startswith("<offbook recording ")
"""
    )
    result = project.record()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 1 recorded live, 0 missed" in printed_output(result)


TOOLS = """
def add(a: int, b: int) -> int:
    "The sum."
    return a + b

def shout(text: str) -> str:
    "The text, louder."
    return text.upper()
"""


@pytest.mark.parametrize("function", ["add, shout", "[add, shout]", "{'add': add, 'shout': shout}"])
def test_tools_are_recorded_and_then_answered_without_running(project, function):
    test = f"""
def test_tools(offbook):
    tools = offbook.tools({function})
    assert tools["add"](a=1, b=2) == 3
    assert offbook.tools(shout)["shout"](text="hi") == "HI"
    assert greet(offbook) == greet(offbook, step="again")
"""
    project.test(TOOLS + test.replace("tools =", "offbook.live(Echo)\n    tools ="))
    result = project.record()
    result.assert_outcomes(passed=1)
    assert "4 recorded live" in printed_output(result)
    project.test(TOOLS.replace("return", "assert False,") + test)
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "4 calls served" in printed_output(result)


def test_lenient_tools_count_what_the_recording_missed(project):
    project.test(
        TOOLS
        + """
@pytest.mark.offbook(strict=False)
def test_tools(offbook):
    assert offbook.tools(add)["add"](a=1, b=2) is None
"""
    )
    project.write("recordings/test_it/test_tools.json", '{"_version": 2}')
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 0 recorded live, 1 missed" in printed_output(result)


def test_faults_fire_as_planned_and_the_gateway_recovers(project):
    project.test(
        """
from offbook import At, ProviderError
from offbook.faults import HttpError

def test_recovers(offbook):
    offbook.live(Echo)
    offbook.faults("call=1 attempt=1: http_error 500")
    response = offbook.run(offbook.gateway.complete(ADA, model="m", step_id="greet"))
    assert response.content == "Hello Ada"
    assert offbook.gateway is offbook.gateway

def test_fails(offbook):
    offbook.live(Echo)
    greet(offbook)
    offbook.faults(At(call=2).fail(HttpError(status_code=503)))
    with pytest.raises(ProviderError, match="503"):
        greet(offbook)

def test_mistyped(offbook):
    offbook.faults("call=1: http_eror 500")
"""
    )
    result = project.record()
    result.assert_outcomes(passed=2, failed=1)
    assert "did you mean 'http_error'?" in printed_output(result)
    assert "def faults" not in printed_output(result)
    project.run("-k", "recovers or fails").assert_outcomes(passed=2)


def test_faults_of_tools_fire_as_planned_and_are_not_recorded(project):
    project.test(
        TOOLS
        + """
from offbook.errors import ToolFaultError

def test_loses(offbook):
    offbook.faults("tool=add call=2: tool_lost")
    added = offbook.tools(add)["add"]
    assert added(a=1, b=2) == 3
    with pytest.raises(ToolFaultError, match="lost"):
        added(a=1, b=2)
    assert offbook.tools(add)["add"](a=1, b=2) == 3

def test_fails_from_then_on(offbook):
    tools = offbook.tools(add, shout)
    assert tools["shout"](text="hi") == "HI"
    offbook.faults('tool=shout call=2: tool_error "not now"')
    offbook.faults("tool=add: tool_garbled ?")
    with pytest.raises(ToolFaultError, match="not now"):
        tools["shout"](text="hi")
    assert tools["add"](a=1, b=2) == "?"
    assert tools["shout"](text="hi") == "HI"

def test_wrong_site(offbook):
    offbook.faults("call=1: tool_lost")
"""
    )
    result = project.record()
    result.assert_outcomes(passed=2, failed=1)
    assert "tool_lost is a tool fault, and the site has no tool" in printed_output(result)
    entries = json.loads((project.folder / "recordings/test_it/test_loses.json").read_text())["_tools"]["add"]
    assert [exchange["result"] for exchange in entries] == [3, 3, 3]
    project.run("-k", "loses or then_on").assert_outcomes(passed=2)


def test_faults_of_tools_leave_http_clients_alone(project):
    project.test(
        TOOLS
        + """
from offbook.errors import ToolFaultError

def test_tools(offbook):
    offbook.faults("tool=add call=1: tool_error")
    stand_in = offbook.stand_in
    offbook.faults("tool=add call=2: tool_lost")
    for _ in range(2):
        with pytest.raises(ToolFaultError):
            offbook.tools(add)["add"](a=1, b=2)
    assert stand_in.unfired() == []
"""
    )
    project.write("recordings/test_it/test_tools.json", '{"_version": 2, "_tools": {"add": [{"result": 3}]}}')
    project.run().assert_outcomes(passed=1)


def test_a_mismatch_after_a_fault_of_a_tool_says_that_it_fired(project):
    project.test(
        TOOLS
        + """
from offbook.errors import ToolFaultError

def test_greets(offbook):
    offbook.faults("tool=add: tool_error")
    with pytest.raises(ToolFaultError):
        offbook.tools(add)["add"](a=1, b=2)
    greet(offbook)
"""
    )
    project.write("recordings/test_it/test_greets.json", '{"_version": 2}')
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "a fault fired before this (tool=add call=1: tool_error)" in printed_output(result)


def test_a_vendor_is_asked_at_the_address_of_the_environment(project, monkeypatch):
    project.test('pytestmark = pytest.mark.offbook(provider="openai")\n' + CANNOT_RECORD)
    with LoopbackServer(chat_answer("Hello Ada")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        project.record().assert_outcomes(passed=1)
        assert len(server.calls) == 1
    project.run().assert_outcomes(passed=1)


def test_recording_from_nothing_says_what_to_do(project, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    project.test(CANNOT_RECORD)
    assert "call offbook.live(provider) first, or mark the test" in printed_output(project.record())
    project.test('pytestmark = pytest.mark.offbook(provider="openai")\n' + CANNOT_RECORD)
    assert "OPENAI_API_KEY is not set" in printed_output(project.record())
    assert project.recordings() == []


def test_a_fixture_asked_for_by_name_works_too(project):
    project.test(
        """
def test_greets(request):
    offbook = request.getfixturevalue("offbook")
    offbook.live(Echo)
    assert greet(offbook) == "Hello Ada"
"""
    )
    project.record().assert_outcomes(passed=1)
    assert project.recordings() == ["test_it/test_greets.json"]


def test_a_test_that_asks_nothing_needs_no_recording(project):
    project.test("def test_nothing(offbook):\n    assert offbook.run(asyncio.sleep(5, 'woken')) == 'woken'\n")
    project.run().assert_outcomes(passed=1)
    project.test("def test_nothing(offbook):\n    assert offbook.run(asyncio.sleep(0, 'woken')) == 'woken'\n")
    project.record().assert_outcomes(passed=1)
    assert project.recordings() == []


def test_a_test_that_opens_its_provider_and_asks_nothing_can_be_recorded(project):
    project.test("def test_nothing(offbook):\n    assert offbook.provider\n")
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


INTERCEPTED = """
import httpx2

URL = "https://api.openai.com/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

def test_intercepts(offbook):
    offbook.faults("call=1 attempt=1: http_error 503")
    offbook.intercept()
    client = httpx2.Client(verify=False)
    assert client.post(URL, json=ASKED).status_code == 503
    assert client.post(URL, json=ASKED).json()["choices"][0]["message"]["content"] == "Hello!"

def test_is_undone():
    assert httpx2.HTTPTransport.handle_request.__module__.startswith("httpx2")
"""


def test_clients_of_others_are_intercepted_until_the_test_ends(project):
    project.write("recordings/test_it/test_intercepts.json", '{"_version": 2, "a": {"content": "Hello!"}}')
    project.test(INTERCEPTED)
    project.run().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "status", "outcomes"), [("", 400, {"failed": 1}), ("lenient_requests=True", 200, {"passed": 1})]
)
def test_a_request_that_the_api_would_refuse_is_answered_if_the_marker_says_so(project, marker, status, outcomes):
    project.test(
        f"""
@pytest.mark.offbook({marker})
def test_asks(offbook):
    body = {{"model": "gpt-4o", "messages": [{{"role": "tool", "tool_call_id": "c1", "content": "x"}}]}}
    with offbook.sync_http_client() as client:
        assert client.post("http://api.test/v1/chat/completions", json=body).status_code == {status}
"""
    )
    project.write("recordings/test_it/test_asks.json", '{"_version": 2, "any": {"content": "Hi"}}')
    project.run().assert_outcomes(**outcomes)
