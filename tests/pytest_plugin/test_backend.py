"""What becomes of recordings: by mode, and by whether the test passes."""

import json

import pytest

from offbook.pytest_plugin.backend import PendingRecording
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.locate import open_store
from tests.pytest_plugin.conftest import printed_output
from tests.servers import redis_server

GREETS = """
def test_greets(offbook):
    offbook.live(Echo)
    greet(offbook)
"""
SAYS_TWO = """
def test_greets(offbook):
    offbook.live(Echo)
    assert greet(offbook) == "old"
    assert greet(offbook, "Eve", step="second") == "Hello Eve"
"""
OLD = {"_version": 2, "greet": {"content": "old"}, "other": {"content": "kept"}}


@pytest.fixture
def recording(project):
    return project.write("recordings/test_it/test_greets.json", json.dumps(OLD))


def contents(file):
    """What is recorded, by key: a text, or a list of texts."""
    entries = {key: entry for key, entry in json.loads(file.read_text()).items() if not key.startswith("_")}
    return {
        key: [each["content"] for each in entry] if isinstance(entry, list) else entry["content"]
        for key, entry in entries.items()
    }


@pytest.mark.parametrize(
    ("mode", "text", "left"),
    [
        ("none", GREETS, {"greet": "old", "other": "kept"}),
        ("once", GREETS, {"greet": "old", "other": "kept"}),
        ("new", SAYS_TWO, {"greet": "old", "other": "kept", "second": "Hello Eve"}),
        ("append", GREETS, {"greet": ["old", "Hello Ada"], "other": "kept"}),
        ("all", GREETS, {"greet": "Hello Ada", "other": "kept"}),
        ("fresh", GREETS, {"greet": "Hello Ada"}),
    ],
)
def test_a_mode_says_what_is_asked_live_and_what_is_kept(project, recording, mode, text, left):
    project.test(text)
    project.run(f"--offbook-record={mode}").assert_outcomes(passed=1)
    assert contents(recording) == left


def test_what_a_recording_answers_while_others_are_recorded_is_counted(project, recording):
    project.test(SAYS_TWO)
    assert "1 call served from recordings, 1 recorded live, 0 missed" in printed_output(
        project.run("--offbook-record=new")
    )


def test_a_marker_sets_the_mode_and_the_command_line_overrules_it(project, recording):
    project.test('pytestmark = pytest.mark.offbook(record="all")\n' + GREETS)
    project.run("--offbook-record=none").assert_outcomes(passed=1)
    assert contents(recording)["greet"] == "old"
    project.run().assert_outcomes(passed=1)
    assert contents(recording)["greet"] == "Hello Ada"


@pytest.mark.parametrize("mode", ["once", "new", "append", "all", "fresh"])
def test_what_a_failed_test_recorded_is_not_kept(project, mode):
    project.test(GREETS + "    assert False\n")
    result = project.run(f"--offbook-record={mode}")
    result.assert_outcomes(failed=1)
    assert project.recordings() == []
    assert "0 recorded live" in printed_output(result)
    assert "1 call of failed tests not kept; --offbook-keep-failed keeps them" in printed_output(result)


@pytest.mark.parametrize("mode", ["new", "append", "all", "fresh"])
def test_a_failed_test_leaves_a_recording_that_was_there_as_it_was(project, recording, mode):
    before = recording.read_bytes()
    project.test(GREETS + "    greet(offbook, 'Eve', step='second')\n    assert False\n")
    project.run(f"--offbook-record={mode}").assert_outcomes(failed=1)
    assert recording.read_bytes() == before
    assert project.recordings() == ["test_it/test_greets.json"]


def test_what_a_failed_test_recorded_is_kept_if_asked_for(project):
    project.test(GREETS + "    assert False\n")
    project.record("--offbook-keep-failed").assert_outcomes(failed=1)
    assert project.recordings() == ["test_it/test_greets.json"]


def test_a_test_that_fails_as_expected_or_whose_fixtures_fail_keeps_nothing(project):
    project.test(
        """
@pytest.mark.xfail(strict=True)
def test_known_bug(offbook):
    offbook.live(Echo)
    greet(offbook)
    assert False

@pytest.fixture
def broken(offbook):
    offbook.live(Echo)
    greet(offbook)
    raise RuntimeError("no database")

def test_never_runs(broken):
    pass
"""
    )
    project.record().assert_outcomes(xfailed=1, errors=1)
    assert project.recordings() == []


def test_recording_all_again_keeps_what_other_tests_of_the_same_run_recorded(project):
    mark = 'pytestmark = pytest.mark.offbook(recording="shared.json")\n'
    project.test(mark + GREETS + GREETS.replace("test_greets", "test_again"))
    shared = project.write("shared.json", json.dumps(OLD))
    project.run("--offbook-record=all").assert_outcomes(passed=2)
    assert contents(shared) == {"greet": ["Hello Ada", "Hello Ada"], "other": "kept"}


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_what_others_record_meanwhile_stays_even_if_their_clock_is_behind(project, mode):
    shared = project.write("shared.json", json.dumps(OLD))
    others = f"""
def test_others(offbook):
    from offbook.recording.format.exchange import Exchange
    from offbook.recording.stores.locate import open_store

    writer = open_store({str(shared)!r}).write()
    writer.append("greet", Exchange(content="of another", recorded_at="1999"))
    writer.close()
"""
    project.test('pytestmark = pytest.mark.offbook(recording="shared.json")\n' + others + GREETS)
    project.run(f"--offbook-record={mode}").assert_outcomes(passed=2)
    assert contents(shared)["greet"] == ["of another", "Hello Ada"]


def test_tests_that_share_a_recording_begin_it_afresh_once(project):
    mark = 'pytestmark = pytest.mark.offbook(recording="shared.json")\n'
    late = GREETS.replace("test_greets", "test_late").replace("greet(offbook)", "greet(offbook, 'Eve', step='late')")
    project.test(mark + GREETS + late + "\ndef test_asks_nothing(offbook):\n    offbook.provider\n")
    shared = project.write("shared.json", json.dumps(OLD | {"_tools": {"get": [{"result": "old"}]}}))
    for _ in range(2):
        project.run("--offbook-record=fresh").assert_outcomes(passed=3)
        assert contents(shared) == {"greet": "Hello Ada", "late": "Hello Eve"}
        assert "_tools" not in json.loads(shared.read_text())


def test_a_test_whose_calls_all_failed_costs_no_recorded_answer(project, recording):
    project.test("""
def test_greets(offbook):
    from offbook.errors import ProviderConnectionError

    class Down(Echo):
        async def send(self, request):
            raise ProviderConnectionError("connection refused", provider="down")

    offbook.live(Down)
    with pytest.raises(ProviderConnectionError):
        greet(offbook, step="renamed")
""")
    for _ in range(2):
        result = project.run("--offbook-record=fresh")
        result.assert_outcomes(passed=1)
        assert "1 recorded live, of which 1 failed, 0 missed" in printed_output(result)
        recorded = json.loads(recording.read_text())
        assert recorded["greet"]["content"] == "old"
        assert recorded["other"]["content"] == "kept"
        assert recorded["renamed"]["fault"] == {"type": "connection_reset"}


def test_something_else_at_the_place_of_a_recording_is_refused(project):
    file = project.write("recordings/test_it/test_greets.json", "notes")
    project.test(GREETS)
    for mode in ("none", "new", "append"):
        result = project.run(f"--offbook-record={mode}")
        result.assert_outcomes(failed=1)
        assert "RecordingFormatError" in printed_output(result)
    assert file.read_text() == "notes"


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
GREETS_wires = """
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
    write(project, GREETS_wires)
    result = project.record()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 1 recorded live, 0 missed" in printed_output(result)
    assert project.recordings() == ["test_it/test_greets.json"]
    write(project, REPLAYS)
    result = project.run()
    result.assert_outcomes(passed=1)
    assert SERVED in printed_output(result)


def test_what_differed_and_did_not_count_is_summed_up(project):
    asks = """
def test_greets(offbook):
    assert greet(offbook.sync_http_client({real}), "/home/{user}/x").startswith("Hello")
"""
    write(project, asks.format(real="real", user="ann"))
    project.record().assert_outcomes(passed=1)
    write(project, asks.format(real="", user="bob"))
    assert "matched: 1 call but for a home folder" in printed_output(project.run())


def test_what_a_failed_test_asked_is_not_kept(project):
    write(project, GREETS_wires + "    assert False\n")
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
    write(project, GREETS_wires)
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
            "1 call not recorded:",
            "POST /v1/chat/completions: *test_greets.json: *",
            "*Eve*",
            "  hint: record the test again, *: pytest test_it.py::test_greets --offbook-record=fresh",
        ]
    )
    assert "1 call served from recordings, 0 recorded live, 1 missed" in printed_output(result)


def test_a_lenient_test_gets_a_default_which_counts_as_missed(project):
    write(project, GREETS_wires)
    project.record()
    lenient = """
@pytest.mark.offbook(strict=False)
def test_greets(offbook):
    assert greet(offbook.sync_http_client(), "Eve") == "Mock response"
"""
    write(project, lenient)
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "0 calls served from recordings, 0 recorded live, 1 missed" in printed_output(result)


TWO = """
def test_greets(offbook):
    client = offbook.sync_http_client(real)
    assert greet(client) == "Hello Ada"
    assert greet(client, "Eve") == "Hello Eve"
"""


def test_entries_that_no_client_used_are_reported_and_fail_the_test_if_asked(project):
    write(project, TWO)
    project.record()
    write(project, REPLAYS)
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["not used in *test_greets.json: *[[]0[]]"])
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)
    assert "1 entry not used" in printed_output(result)


def test_an_entry_that_was_recorded_once_and_served_twice_fails_the_test_if_asked(project):
    project.test('def test_greets(offbook):\n    offbook.live(Echo())\n    assert greet(offbook) == "Hello Ada"\n')
    project.record().assert_outcomes(passed=1)
    project.test("def test_greets(offbook):\n    greet(offbook)\n    greet(offbook)\n")
    project.run().assert_outcomes(passed=1)
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)
    assert "1 entry served more often than recorded: greet 2 times" in printed_output(result)


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
    assert "2 calls served" in printed_output(result)


def test_nothing_is_used_by_a_stand_in_that_nobody_asked(project):
    write(project, GREETS_wires)
    project.record()
    write(project, "\ndef test_greets(offbook):\n    offbook.http_client()\n")
    result = project.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)


def test_faults_fire_at_clients_from_when_they_are_added(project):
    write(project, TWO)
    project.record()
    broken = """
def test_greets(offbook):
    client = offbook.sync_http_client()
    assert greet(client) == "Hello Ada"
    offbook.faults("call=2: http_error 503")
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
    assert "a fault fired before this" in printed_output(result)
    assert "record the test again" not in printed_output(result)


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
    assert SERVED in printed_output(result)


@pytest.mark.parametrize("mode", ["new", "all", "append"])
def test_record_modes_are_those_of_providers(project, mode):
    write(project, GREETS_wires)
    project.record()
    write(project, TWO)
    project.run(f"--offbook-record={mode}").assert_outcomes(passed=1)
    write(project, TWO.replace("real", ""))
    result = project.run()
    result.assert_outcomes(passed=1)
    left = {"new": False, "all": False, "append": True}[mode]
    assert ("not used in" in printed_output(result)) == left


def test_of_tests_that_record_the_same_at_once_into_redis_the_first_to_pass_has_its_answers_kept():
    url = redis_server.shared().url()
    writer = open_store(url).write()
    writer.append_tool("poll", ToolExchange(arguments={}, result="before"))
    at_once = [PendingRecording(url, "new", found=None) for _ in range(2)]
    for name, pending in zip("ab", at_once, strict=True):
        writer = open_store(pending.location).write()
        for key, fingerprint in (("greet", "1"), ("greet", "1"), ("only", name)):
            writer.append(key, Exchange(content=f"{key} {name}", request_hash=fingerprint))
        writer.append_tool("poll", ToolExchange(arguments={}, result=name))
        writer.close()
    for pending in at_once:
        pending.commit(pending.recorded())
        pending.remove()
    document = open_store(url).load()
    assert [exchange.content for _, exchange in document] == ["greet a", "greet a", "only a", "only b"]
    assert [call.result for call in document.tools["poll"]] == ["before", "a"]
    assert not [key for key in redis_server.shared().keys(url) if ":lease:" in key]


def test_an_unknown_key_of_the_config_fails_the_tests_that_use_it_and_names_the_line(project):
    write(project, GREETS_wires)
    project.record()
    project.write("offbook.toml", "[explore]\ndeadline = 3\n\n[run]\nparalel = 2\n")
    project.test("def test_alone():\n    pass\n", path="test_other.py")
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    assert "offbook.toml:5: run.paralel: unknown key 'paralel'" in printed_output(result)
