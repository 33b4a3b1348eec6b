"""The reports of tests whose requests have changed, and of those that cannot be recorded."""

import json

import pytest

from tests.pytest_plugin.conftest import printed_output

AGENT = """
async def agent(provider, text):
    response = await provider.complete([{"role": "user", "content": text}], model="m", step_id="greet")
    return response.content
"""
ASKS = """
from agent import agent
import json

def test_it(offbook):
    offbook.live(Echo)
    assert offbook.run(agent(offbook.gateway, "Ada")) == "Hello Ada"
"""
OVER_HTTP = """
import openai

def test_it(offbook):
    pass
    client = openai.OpenAI(api_key="k", http_client=offbook.sync_http_client())
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello Eve"}])
"""
BY_ANTHROPIC = """
import anthropic

def test_it(offbook):
    pass
    client = anthropic.Anthropic(api_key="k", http_client=offbook.sync_http_client())
    client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "Hello Eve"}])
"""
MAX_LINES = 40


@pytest.fixture
def recorded(project, monkeypatch):
    monkeypatch.setenv("CI", "true")  # where pytest prints the errors of its summary whole
    project.write("agent.py", AGENT)
    project.test(ASKS)
    project.record().assert_outcomes(passed=1)
    return project


def test_a_drifted_prompt_shows_the_difference_the_hint_and_no_frame_of_a_library(recorded):
    recorded.test(ASKS.replace('"Ada"', '"Eve"'))
    result = recorded.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_it.py:*: in test_it",
            "agent.py:3: in agent",
            "E   offbook.errors.RecordingMismatchError: *: step 'greet' was recorded with another request:",
            "E     -Ada",
            "E     +Eve",
            "E     hint: record the test again, or undo the change: pytest test_it.py::test_it --offbook-record=fresh",
        ]
    )
    assert printed_output(result).count("+Eve") == 1
    assert "gateway.py" not in printed_output(result)
    assert len(result.outlines) < MAX_LINES


@pytest.mark.loads_sdk
@pytest.mark.parametrize(
    ("sdk", "error", "fault"),
    [
        (OVER_HTTP, "openai.UnprocessableEntityError", ""),
        (OVER_HTTP, "openai.UnprocessableEntityError", "call=1 attempt=1: http_error 503"),
        (BY_ANTHROPIC, "anthropic.UnprocessableEntityError", ""),
    ],
    ids=["openai", "openai after a fault", "anthropic"],
)
def test_an_error_of_an_sdk_is_as_short_and_shows_the_difference_once_with_the_hint(recorded, sdk, error, fault):
    recorded.test(sdk.replace("pass", f"offbook.faults({fault!r})" if fault else "pass"))
    result = recorded.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_it.py:*: in test_it",
            f"E   {error}: the call is not recorded, see below",
            "1 call not recorded:",
            "  +Hello Eve",
            "  hint: record the test again, or undo the change: pytest test_it.py::test_it --offbook-record=fresh",
        ]
    )
    assert printed_output(result).count("+Hello Eve") == 1
    assert "_base_client.py" not in printed_output(result)
    assert len(result.outlines) < MAX_LINES


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize(
    ("test", "error", "added"),
    [
        (ASKS.replace('"Ada"', '"Eve"'), "offbook.errors.RecordingMismatchError", "  +Eve"),
        pytest.param(OVER_HTTP, "openai.UnprocessableEntityError", "  +Hello Eve", marks=pytest.mark.loads_sdk),
    ],
    ids=["provider", "sdk"],
)
def test_an_explored_test_whose_prompt_has_changed_is_as_short(recorded, test, error, added, isolated):
    recorded.test(test.replace("def ", f"@pytest.mark.explore(budget=1, isolated={isolated})\ndef "))
    result = recorded.run()
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(
        [
            "test_it.py:*: in test_it",
            f"E   {error}: the call is not recorded, see below",
            added,
            "  hint: record the test again, or undo the change: pytest test_it.py::test_it --offbook-record=fresh",
            f"FAILED test_it.py::test_it?clean? - {error}: the call is not recorded*",
        ]
    )
    assert printed_output(result).count(added) == printed_output(result).count("hint:") == 1
    assert not any(name in printed_output(result) for name in ("_base_client.py", "gateway.py", "monitor.py"))
    assert len(result.outlines) < MAX_LINES


def test_what_follows_a_fault_of_another_call_is_no_change_of_the_test(recorded):
    recorded.test(
        """
def test_it(offbook):
    offbook.faults("call=1: empty_response")
    for name in ("Ada", "Eve"):
        greet(offbook, name)
"""
    )
    printed = printed_output(recorded.run())
    assert "a fault fired before this (step=greet call=1 attempt=1: empty_response)" in printed
    assert "record the test again" not in printed


def test_a_style_that_the_user_chose_is_kept(recorded):
    recorded.test(ASKS.replace('"Ada"', '"Eve"'))
    assert "gateway.py" in printed_output(recorded.run("--tb=long"))


def test_a_test_that_fails_for_another_reason_keeps_its_traceback(recorded):
    recorded.test(
        """
def test_it(offbook):
    with pytest.raises(Exception):
        greet(offbook, "Eve")
    assert 1 == 2
"""
    )
    result = recorded.run()
    result.stdout.fnmatch_lines([">       assert 1 == 2", "1 call not recorded:", "*hint: record the test again*"])


@pytest.mark.parametrize("ending", ['pytest.fail("no")', "raise SystemExit(3)"])
def test_a_test_that_fails_by_its_own_word_reports_its_unrecorded_calls_once(recorded, ending):
    recorded.test(
        f"""
def test_it(offbook):
    with pytest.raises(Exception):
        greet(offbook, "Eve")
    {ending}
"""
    )
    result = recorded.run()
    result.assert_outcomes(failed=1)
    assert printed_output(result).count("1 call not recorded:") == 1


def test_a_test_that_cannot_be_recorded_for_want_of_a_key_names_its_variable(project, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    project.test(
        """
import http.server, threading
import httpx2

class Refusing(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

def test_it(offbook):
    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with offbook.serving(upstreams={"anthropic": f"http://127.0.0.1:{server.server_port}"}) as served:
            asked = {"model": "m", "max_tokens": 1, "messages": []}
            httpx2.post(f"{served.url}/v1/messages", json=asked).raise_for_status()
"""
    )
    result = project.record()
    result.assert_outcomes(failed=1)
    advice = "recording makes live calls, and no key is set: export ANTHROPIC_API_KEY=…"
    result.stdout.fnmatch_lines(["*HTTPStatusError*401*", advice])


def test_who_records_again_without_a_key_is_told_so_before_the_first_test(project, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    wire = {"protocol": "openai_chat", "body": "{}"}
    recording = json.dumps({"_version": 2, "greet": {"content": "Hello", "wire": wire}})
    project.write("recordings/test_it/test_it.json", recording)
    project.test("def test_it(offbook):\n    print('it runs')\n    assert False")
    advice = "offbook: recording makes live calls, and no key is set: export OPENAI_API_KEY=…"
    for mode, is_told in {"fresh": True, "new": False, "none": False}.items():
        lines = printed_output(project.run(f"--offbook-record={mode}")).splitlines()
        assert (advice in lines) == is_told
        assert not is_told or lines.index(advice) < lines.index("it runs")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        with monkeypatch.context() as environment:
            environment.setenv(name, "http://127.0.0.1:9")
            assert advice not in printed_output(project.run("--offbook-record=fresh"))
