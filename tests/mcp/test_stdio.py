"""A real server behind us over stdio: everything passes untouched, and is recorded; and how it may misbehave."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import InputError
from offbook.mcp import stdio
from offbook.mcp.session import MAX_RECORDED_BYTES
from offbook.mcp.stdio import LineBuffer, ServerProcess, TooLongLine
from offbook.recording.stores.locate import open_store
from tests.mcp.wiring import Upstream, call, opening, over_stdio, real_server, recording_to, replaying


def recorded_calls(path):
    document = open_store(path).load()
    return {name: document.tools[name] for name in document.tools}


def answer_with(*lines):
    """A real server that writes these lines after each request."""

    def answer(message):
        yield from (each(message) if callable(each) else each for each in lines)

    return answer


class Noisy(Upstream):
    """A real server that prints a line that is no message before each answer."""

    def write(self, data):
        self.server.receive_from_server(b"Debug: listening")
        super().write(data)


def test_bytes_pass_untouched_in_both_directions(tmp_path):
    upstream = Upstream()
    with recording_to(tmp_path / "run.json") as session:
        sent = [*opening("handshake"), call("add", {"a": 1, "b": 2}, id="x"), {"jsonrpc": "2.0", "method": "x/y"}]
        client = over_stdio(session, *sent, upstream=upstream)
    assert upstream.received == sent
    assert client.messages == [each for message in sent if "id" in message for each in real_server(message)]


def test_noise_of_a_server_passes_and_is_not_recorded(tmp_path):
    with recording_to(tmp_path / "run.json") as session:
        client = over_stdio(session, call("add", {"a": 1, "b": 2}), upstream=Noisy())
    noise, answer = client.data.splitlines()
    assert noise == b"Debug: listening"
    assert json.loads(answer)["result"]["structuredContent"] == {"result": 3}
    assert [len(calls) for calls in recorded_calls(tmp_path / "run.json").values()] == [1]


def test_an_answer_under_a_wrong_id_passes_and_records_nothing(tmp_path):
    wrong = {"jsonrpc": "2.0", "id": 99, "result": {"content": []}}
    with recording_to(tmp_path / "run.json") as session:
        client = over_stdio(session, call("add", {"a": 1, "b": 2}), upstream=Upstream(answer_with(wrong)))
    assert client.messages == [wrong]
    assert recorded_calls(tmp_path / "run.json") == {}


def test_a_server_that_dies_loses_the_call_in_flight_and_its_exit_code_is_ours(tmp_path):
    class Dying(Upstream):
        def write(self, data):
            self.server.server_ended(3)

    with recording_to(tmp_path / "run.json") as session:
        client = over_stdio(session, call("add", {"a": 1, "b": 2}), upstream=Dying())
        assert session.session.failures == {"the server exited with 3 before it answered": 1}
    assert client.data == b""
    assert client.exit_code == 3


def test_notifications_of_the_server_alone_are_recorded_under_its_name(tmp_path):
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    with recording_to(tmp_path / "run.json") as session:
        upstream = Upstream(answer_with(lambda message: next(real_server(message)), changed))
        over_stdio(session, call("add", {"a": 1, "b": 2}), upstream=upstream)
    recorded = recorded_calls(tmp_path / "run.json")
    assert list(recorded) == ["notes.add", "_mcp.notes notifications/tools/list_changed"]


def test_secrets_are_removed_from_arguments_results_and_bytes(tmp_path):
    secret = "sk-proj-" + "a1B2" * 10

    def answer(message):
        yield {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": secret}]}}

    with recording_to(tmp_path / "run.json") as session:
        client = over_stdio(session, call("write", {"key": secret}), upstream=Upstream(answer))
    assert secret in client.data.decode()
    assert secret not in (tmp_path / "run.json").read_text()
    ((recorded,),) = recorded_calls(tmp_path / "run.json").values()
    assert recorded.arguments_hash is not None
    assert json.loads(recorded.wire.content())["id"] == 1


def test_what_a_server_says_of_its_own_credentials_is_not_recorded(tmp_path):
    def answer(message):
        yield {
            "jsonrpc": "2.0",
            "id": message["id"],
            "result": {"content": [{"type": "text", "text": "I am hunter2hunter2"}]},
        }

    process = ServerProcess(["x"], environment={"NOTES_TOKEN": "hunter2hunter2", "HOME": "/home/somebody"})
    assert process.credentials == ("hunter2hunter2",)
    with recording_to(tmp_path / "run.json") as session:
        over_stdio(session, call("write"), upstream=Upstream(answer, process.credentials))
    assert "hunter2" not in (tmp_path / "run.json").read_text()


def test_a_recording_in_mode_new_asks_for_what_it_does_not_have(tmp_path):
    path = tmp_path / "run.json"
    for mode, sent in (("append", [1]), ("new", [1, 2])):
        upstream = Upstream()
        with recording_to(path, mode=mode) as session:
            over_stdio(
                session, *opening("handshake"), *(call("add", {"a": n, "b": 0}) for n in sent), upstream=upstream
            )
        asked = [message["params"]["arguments"]["a"] for message in upstream.received if "tools/call" in str(message)]
        assert asked == sent[-1:]
    recorded = recorded_calls(path)
    assert [len(recorded[name]) for name in ("notes.add", "_mcp.notes initialize")] == [2, 1]


@pytest.mark.parametrize(
    ("fault", "got"),
    [
        ("tool_error error=broken", {"content": [{"type": "text", "text": "broken"}], "isError": True}),
        ("tool_empty", {"content": []}),
        ("tool_garbled result=x", {"content": [{"type": "text", "text": "x"}]}),
    ],
)
def test_a_fault_changes_what_the_client_gets_and_not_what_is_recorded(tmp_path, fault, got):
    upstream = Upstream()
    with recording_to(tmp_path / "run.json", faults=[f"tool=notes.add call=1: {fault}"]) as session:
        client = over_stdio(session, call("add", {"a": 1, "b": 2}), upstream=upstream)
        assert [call.outcome for call in session.session.calls] == ["fault"]
    assert client.messages[0]["result"] == got
    has_run = not fault.startswith("tool_error")
    assert len(upstream.received) == has_run
    assert [calls[0].result for calls in recorded_calls(tmp_path / "run.json").values()] == [3] * has_run


def test_a_lost_answer_ends_the_server_after_it_has_done_its_work(tmp_path):
    upstream = Upstream()
    with recording_to(tmp_path / "run.json", faults=["tool=notes.write: tool_lost"]) as session:
        client = over_stdio(session, call("write"), upstream=upstream)
    assert len(upstream.received) == 1
    assert client.data == b""
    assert client.exit_code == 1


def test_a_late_answer_comes_when_it_is_due_unless_the_client_cancels():
    recording = {"_version": 2, "_tools": {"notes.write": [{"arguments": {}, "result": "a"}]}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    for sent, count in (([call("write")], 1), ([call("write"), cancel], 0)):
        with replaying(recording, faults=["tool=notes.write: tool_timeout 5"]) as endpoint:
            client = over_stdio(endpoint.session, *sent, wait_s=0.02)
        assert len(client.messages) == count


def test_a_batch_is_answered_as_a_batch_and_recorded_message_by_message(tmp_path):
    sent = [*opening("handshake")[1:], call("add", {"a": 1, "b": 2}, id=1), call("write", id=2, token=9)]

    class Batching(Upstream):
        def write(self, data):
            self.received += json.loads(data)
            answers = [reply for message in self.received if "id" in message for reply in real_server(message)]
            self.server.receive_from_server(json.dumps(answers).encode())

    with recording_to(tmp_path / "run.json") as session:
        live = over_stdio(session, sent, upstream=Batching())
    assert [message.get("id") for message in live.messages[0]] == [1, None, 2]
    assert [len(calls) for calls in recorded_calls(tmp_path / "run.json").values()] == [1, 1]
    with replaying(tmp_path / "run.json") as endpoint:
        progress, answers = over_stdio(endpoint.session, sent).messages
    assert progress["params"]["progressToken"] == 9
    assert [message["id"] for message in answers] == [1, 2]


def test_an_empty_batch_is_a_parse_error():
    with replaying({"_version": 2}) as endpoint:
        (got,) = over_stdio(endpoint.session, []).messages
    assert got["error"]["code"] == -32700


def test_an_answer_that_is_too_large_to_record_reaches_the_client_and_is_named(tmp_path):
    text = "x" * MAX_RECORDED_BYTES
    large = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}}
    with recording_to(tmp_path / "run.json") as session:
        client = over_stdio(session, call("write", id=1), upstream=Upstream(answer_with(large)))
        assert list(session.session.unrecorded) == [f"the response has more than {MAX_RECORDED_BYTES:,} bytes"]
    assert client.messages == [large]
    assert recorded_calls(tmp_path / "run.json") == {}


@given(st.lists(st.binary(max_size=6).map(lambda data: data.replace(b"\n", b"")), max_size=5), st.data())
def test_lines_are_the_same_however_their_bytes_are_cut(lines, data):
    sent, buffer, got = b"".join(each + b"\n" for each in lines), LineBuffer(), []
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        got += buffer.feed(sent[:size])
        sent = sent[size:]
    assert got == [each.rstrip(b"\r") for each in lines if each.strip()]
    assert buffer.close() == b""


def test_what_is_not_a_recording_cannot_be_recorded_to(tmp_path):
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError), recording_to(tmp_path / "run.json"):
        pass


@pytest.mark.parametrize(
    "message", ['{"jsonrpc":"2.0","id":7,"result":"%s"}', '{"jsonrpc":"2.0","result":"%s","id":7}']
)
def test_of_a_line_that_is_too_long_only_its_ends_are_kept_and_its_id_gets_an_error(message, monkeypatch):
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100_000)
    buffer, kept = LineBuffer(), []
    data = (message % ("x" * 10_000_000)).encode() + b"\n" + b'{"after": 1}\n'
    for start in range(0, len(data), 65_536):
        kept += buffer.feed(data[start : start + 65_536])
        assert sum(map(len, buffer._pieces)) < 200_000
    long, after = kept
    assert isinstance(long, TooLongLine)
    assert len(long) < 5_000
    error = json.loads(long.error)
    assert error["id"] == 7
    assert error["error"]["message"].startswith("a message of more than 100,000 bytes was dropped")
    assert after == b'{"after": 1}'


def test_a_line_of_the_largest_size_is_kept_whole(monkeypatch):
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100)
    assert LineBuffer().feed(b"x" * 100 + b"\n") == [b"x" * 100]
    [line] = LineBuffer().feed(b"x" * 101 + b"\n")
    assert isinstance(line, TooLongLine)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import signal; signal.pause()", 0),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); [signal.pause() for _ in iter(int, 1)]", 0),
        ("import sys; sys.stdin.read(); sys.exit(5)", 5),
        ("import os, sys; sys.stdin.read(); os.kill(os.getpid(), 9)", 137),
    ],
)
async def test_a_server_that_is_slow_to_end_has_not_failed(program, code, monkeypatch):
    monkeypatch.setattr(stdio, "END_GRACE_S", 0.2 if code == 0 else 60.0)
    server = ServerProcess([sys.executable, "-S", "-c", program], environment={})
    await server.start()
    assert await server.stop() == code
