"""What the fixture `offbook` checks when its test has ended: calls without an answer, faults, unused entries."""

import json

import pytest

from tests.pytest_plugin.conftest import printed_output

RECORDING = '{"_version": 2, "greet": {"content": "Hello"}, "_tools": {"add": [{"arguments": {"a": 1}, "result": 3}]}}'
ONLY_TOOLS = RECORDING.replace('"greet": {"content": "Hello"}, ', "")
CARELESS = """
def ask(offbook, step):
    try:
        return offbook.run(offbook.provider.complete(ADA, model="m", step_id=step)).content
    except Exception:
        return "All done!"

def add(a: int) -> int:
    \"\"\"Add.\"\"\"
    raise AssertionError("the real tool must not run")

def use(offbook, a):
    try:
        return offbook.tools(add)["add"].callable(a=a)
    except Exception:
        return "All done!"
"""


@pytest.fixture
def careless(project):
    """Runs a test with this body on a recording of the step `greet` and of `add(1)`."""

    def run(body, *arguments, marker="", recording=RECORDING):
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        project.test(f"{CARELESS}\n{marker}\ndef test_it(offbook):\n{lines}\n")
        if recording is not None:
            project.write("recordings/test_it/test_it.json", recording)
        return project.run(*arguments)

    return run


class TestMisses:
    @pytest.mark.parametrize(
        ("body", "miss"),
        [
            ('assert ask(offbook, "part") == "All done!"', "*test_it.json: step 'part' is not in the recording.*"),
            ('assert use(offbook, 2) == "All done!"', "*test_it.json: tool 'add' was not recorded with these *"),
        ],
    )
    def test_one_that_the_agent_swallowed_fails_the_test_with_the_mismatch(self, careless, body, miss):
        result = careless(body)
        result.assert_outcomes(failed=1)
        hint = "  hint: record the test again, or undo the change: pytest test_it.py::test_it --offbook-record=fresh"
        result.stdout.fnmatch_lines(["1 call not recorded:", miss, hint])

    def test_one_of_a_gateway_that_the_agent_swallowed_fails_the_test(self, careless):
        result = careless(
            'with pytest.raises(Exception):\n    offbook.run(offbook.gateway.complete(ADA, model="m", step_id="part"))'
        )
        result.assert_outcomes(failed=1)

    def test_one_of_a_client_of_a_server_that_the_agent_swallowed_fails_the_test(self, careless):
        result = careless(
            "import httpx2\n"
            "with offbook.serving() as server:\n"
            '    asked = {"model": "m", "messages": ADA}\n'
            '    assert httpx2.post(f"{server.url}/v1/chat/completions", json=asked).status_code == 422',
            recording=ONLY_TOOLS,
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["POST /v1/chat/completions: *"])

    def test_one_of_a_session_that_was_deleted_fails_the_test(self, careless):
        result = careless(
            'asked = {"model": "m", "messages": ADA}\n'
            'url = "https://api.openai.com/v1/chat/completions"\n'
            'offbook.sync_http_client().post(url, json=asked, headers={"x-offbook-session": "one"})\n'
            'offbook.stand_in.end_session("one")',
            recording=ONLY_TOOLS,
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["1 call not recorded:", "a call of a session that was deleted"])

    def test_one_that_is_made_while_fixtures_are_torn_down_is_an_error_of_the_test(self, careless, project):
        body = "pass\n\n@pytest.fixture(autouse=True)\ndef late(offbook):\n    yield\n    ask(offbook, 'part')"
        project.write("recordings/test_it/test_it.json", RECORDING)
        project.test(f"{CARELESS}\ndef test_it(offbook):\n    {body}\n")
        result = project.run()
        result.assert_outcomes(passed=1, errors=1)
        assert "step 'part' is not in the recording" in printed_output(result)

    def test_one_is_shown_with_a_test_that_fails_for_another_reason(self, careless):
        result = careless('assert ask(offbook, "part") == "Hello"')
        result.assert_outcomes(failed=1)
        text = printed_output(result)
        assert "AssertionError: assert 'All done!' == 'Hello'" in text
        assert text.count("step 'part' is not in the recording") == 1

    def test_many_are_counted(self, careless):
        result = careless('for number in range(5):\n    ask(offbook, f"part{number}")')
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["5 calls not recorded:", "… and 2 more"])

    @pytest.mark.parametrize("call", ['ask(offbook, "part")', "use(offbook, 2)"])
    def test_one_that_follows_a_fault_does_not_say_to_record_the_test_again(self, careless, call):
        result = careless(f'offbook.faults("tool=add call=1: tool_lost")\nuse(offbook, 1)\n{call}')
        result.assert_outcomes(failed=1)
        assert "a fault fired before this (tool=add call=1: tool_lost)" in printed_output(result)
        assert "record" not in printed_output(result).partition("hint: ")[2].partition("a fault fired")[0]
        assert "or undo the change" not in printed_output(result)

    def test_one_over_http_that_follows_a_fault_of_a_tool_does_not_say_to_record_the_test_again(self, careless):
        result = careless(
            'offbook.faults("tool=add call=1: tool_lost")\n'
            "use(offbook, 1)\n"
            'asked = {"model": "m", "messages": ADA}\n'
            'offbook.sync_http_client().post("https://api.openai.com/v1/chat/completions", json=asked)',
            recording=ONLY_TOOLS,
        )
        result.assert_outcomes(failed=1)
        assert "or undo the change" not in printed_output(result)

    def test_a_lenient_test_has_none(self, careless):
        result = careless('ask(offbook, "part")', marker="@pytest.mark.offbook(strict=False)")
        result.assert_outcomes(passed=1)


class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("call=7: timeout", "the run made 1 model call; the last place is 'call=1'"),
            ("tool=add call=7: tool_lost", "add was called once; the last place is 'tool=add call=1'"),
            ("step=part: timeout", "step 'part' made no model call; steps with calls: greet"),
        ],
    )
    def test_one_that_never_fires_fails_the_test_and_says_why(self, careless, fault, reason):
        result = careless(f'offbook.faults({fault!r})\nask(offbook, "greet")\nuse(offbook, 1)')
        result.assert_outcomes(failed=1)
        assert f"the fault {fault!r} never fired: {reason}\n" in printed_output(result)

    def test_one_that_never_fires_in_a_client_fails_the_test(self, careless):
        result = careless('offbook.sync_http_client()\noffbook.faults("call=7: timeout")')
        result.assert_outcomes(failed=1)

    def test_one_that_is_added_and_followed_by_no_call_fails_the_test(self, careless):
        careless('ask(offbook, "greet")\noffbook.faults("call=1: timeout")').assert_outcomes(failed=1)

    def test_those_that_fire_pass(self, careless):
        faults = 'offbook.faults("call=1: timeout", "tool=add: tool_lost")\n'
        careless(f'{faults}ask(offbook, "greet")\nuse(offbook, 1)').assert_outcomes(passed=1)


class TestUnused:
    """`unused="error"` also counts what the test has not touched at all."""

    @pytest.mark.parametrize(
        ("body", "names"),
        [
            ("pass", "2 entries not used: greet[0], _tools.add[0]"),
            ('ask(offbook, "greet")', "1 entry not used: _tools.add[0]"),
            ("use(offbook, 1)", "1 entry not used: greet[0]"),
            ("offbook.stand_in", "2 entries not used: greet[0], _tools.add[0]"),
        ],
    )
    @pytest.mark.parametrize("how", ["marker", "option"])
    def test_what_no_call_used_fails_the_test(self, careless, body, names, how):
        marker = '@pytest.mark.offbook(unused="error")' if how == "marker" else ""
        result = careless(body, *([] if marker else ["--offbook-strict-unused"]), marker=marker)
        result.assert_outcomes(failed=1)
        assert names in printed_output(result)

    def test_a_test_without_a_recording_that_makes_no_call_passes(self, careless):
        careless("offbook.provider", "--offbook-record=once", recording=None).assert_outcomes(passed=1)

    @pytest.mark.parametrize("recording", [RECORDING, None])
    def test_a_test_that_does_nothing_with_the_fixture_is_an_error(self, careless, recording):
        result = careless("pass", recording=recording)
        result.assert_outcomes(passed=1, errors=1)
        assert "does not use it, so nothing is replayed" in printed_output(result)

    @pytest.mark.parametrize(
        "body", ["offbook.effect", "offbook.recording", "offbook.faults('call=1: empty_response')"]
    )
    def test_a_test_that_makes_no_call_may_use_the_fixture_otherwise(self, careless, body):
        assert "nothing is replayed" not in printed_output(careless(body))

    def test_tools_of_a_recorded_program_are_not_taken_over_rather_than_unused(self, careless):
        program = json.dumps({"_version": 2, "_meta": {"program_tools": True}} | json.loads(RECORDING))
        result = careless('ask(offbook, "greet")', "--offbook-strict-unused", recording=program)
        result.assert_outcomes(passed=1)
        where = "recordings/test_it/test_it.json"
        result.stdout.fnmatch_lines([f"tools of the program, not taken over in this process: add ({where})"])

    def test_tools_of_a_recorded_program_stay_if_the_test_is_recorded_afresh(self, careless, project):
        program = json.dumps({"_version": 2, "_meta": {"program_tools": True}} | json.loads(RECORDING))
        careless("offbook.live(Echo)\nask(offbook, 'greet')", "--offbook-record=fresh", recording=program)
        recorded = json.loads((project.folder / "recordings/test_it/test_it.json").read_text())
        assert recorded["_tools"] == json.loads(RECORDING)["_tools"]
        assert recorded["greet"] != json.loads(RECORDING)["greet"]

    def test_nothing_is_unused_while_recording(self, careless):
        careless("pass", "--offbook-strict-unused", "--offbook-record=all").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "use", ["offbook.provider", "offbook.tools(add)", "offbook.stand_in", "offbook.serving().__enter__()"]
)
def test_the_hint_for_an_old_recording_names_the_marker(careless, use):
    result = careless(use, recording='{"greet": {"content": "Hello"}}')
    result.assert_outcomes(failed=1)
    assert "or mark the test: @pytest.mark.offbook(strict=False)" in printed_output(result)
