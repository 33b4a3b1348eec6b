"""The function tools of a program, which asks about each call, at a socket or over HTTP: recorded, replayed, broken."""

import asyncio
import gc
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from offbook import inject_tools
from offbook.errors import OffbookError
from offbook.events import FaultFired, MemorySink
from offbook.faults import At, FaultPlan, parse_fault
from offbook.subjects.program.guest import tools as guest
from offbook.subjects.program.guest.tools import Tools
from offbook.wire.options import ProgramToolOptions, WireOptions
from offbook.wire.server.control import TOOLS_PATH
from offbook.wire.server.tool_socket import ToolSocket
from offbook.wire.server.wire_server import WireServer
from tests.faults.samples import TOOL_SAMPLES
from tests.servers import redis_server

REFUNDED = {"arguments": {"order": 7}, "result": {"refunded": 7}}
MAILED = {"arguments": {"order": 7}, "result": "sent"}
BOOK = {"_version": 2, "_tools": {"refund": [REFUNDED], "mail": [MAILED]}}
EVERYTHING = ProgramToolOptions(run_all=True)


@dataclass
class Price:
    amount: int


@pytest.fixture(autouse=True, params=["a socket", "http"])
def asks(request, monkeypatch):
    """Programs ask at a socket, or over HTTP."""
    monkeypatch.setattr(Program, "asks_at", request.param)
    return request.param


class Program:
    """The tools of a program, by name, and what they have done."""

    asks_at = "http"

    def __init__(self, server, socket):
        self.server, self.ran, self.before_mail = server, [], lambda: None

        def refund(order: int) -> dict:
            self.ran.append("refund")
            if order == 13:
                raise LookupError("there is no order 13")
            return {"refunded": order}

        def mail(order: int) -> str:
            self.ran.append("mail")
            self.before_mail()
            return f"sent {len(self.ran)}"

        async def look(order: int) -> str:
            self.ran.append("look")
            return f"order {order}"

        def draw(order: int) -> object:
            self.ran.append("draw")
            return object()

        def price(order: int) -> Price:
            return Price(order)

        self.refund, self.mail, self.look, self.draw, self.price = refund, mail, look, draw, price

        tools = self.tools = Tools(f"{server.url}{TOOLS_PATH}", socket)
        for function in (refund, mail, look, draw, price):
            assert tools.take(function, function.__name__)

    def searching(self):
        """Return a tool with defaults."""

        def search(order: int, currency: str = "EUR", pages: list | None = None) -> str:
            self.ran.append("search")
            return f"{order} in {currency}"

        assert self.tools.take(search, "search")
        return search

    def at_once(self, *calls):
        """Make calls in threads of their own, and return the names of their tools in the order of their answers."""
        ended = []

        def make(function):
            function(order=7)
            ended.append(function.__name__)

        threads = [threading.Thread(target=make, args=[function]) for function in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return ended


@contextmanager
def program(tools=None, **options):
    given = WireOptions(has_tools=True, tools=tools or ProgramToolOptions(), **options)
    with WireServer(given) as server, ToolSocket(server) as socket:
        yield Program(server, socket.path if Program.asks_at == "a socket" else "")


def replayed(*lines, **options):
    return program(responses=BOOK, strict=True, faults=[parse_fault(line) for line in lines], **options)


def calls_in(path):
    """The recorded calls of each tool of a file."""
    tools = json.loads(path.read_text()).get("_tools", {})
    return {tool: len(calls) if isinstance(calls, list) else 1 for tool, calls in tools.items()}


def in_process(fault):
    """What a call of a tool of this process comes to with a fault: its result, or the text of its error."""

    def refund(order: int) -> dict:
        """Pay an order back."""
        return {"refunded": order}

    tools = inject_tools([refund], FaultPlan([At(tool="refund").fail(fault)]))
    try:
        return tools["refund"].callable(order=7)
    except OffbookError as error:
        return str(error)


@pytest.mark.parametrize(
    ("lie", "told"),
    [("field_missing", {}), ("value_changed refunded", {"refunded": 118}), ("tool_noop", {"refunded": 7})],
)
def test_a_lie_about_a_recorded_result_is_told_and_nothing_runs(lie, told):
    line = f"tool=refund call=1: {lie}"
    with replayed(line) as run:
        assert run.refund(order=7) == told
        assert [str(each) for each in run.server.fired()] == [line]
        assert run.ran == []


@pytest.mark.parametrize(
    "fault", [fault for fault in TOOL_SAMPLES if "lies" not in fault.traits], ids=lambda fault: fault.type
)
def test_a_fault_comes_to_the_same_as_at_a_tool_of_this_process(fault):
    line = str(At(tool="refund", call=1).fail(fault))
    with replayed(line) as run:
        try:
            got = run.refund(order=7)
        except Exception as error:
            got = str(error)
        assert got == in_process(fault)
        assert [str(each) for each in run.server.fired()] == [line]
        assert run.ran == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("tool_error", RuntimeError), ("tool_lost", ConnectionError), ("tool_timeout", TimeoutError)],
)
def test_a_fault_raises_what_such_a_failure_raises_in_a_program(fault, kind):
    with replayed(f"tool=refund: {fault}") as run, pytest.raises(kind):
        run.refund(order=7)


def test_a_timeout_takes_its_time():
    with replayed("tool=refund: tool_timeout 50") as run:
        started_s = time.monotonic()
        with pytest.raises(TimeoutError):
            run.refund(order=7)
        assert time.monotonic() - started_s >= 0.05


@pytest.mark.parametrize("tools", [ProgramToolOptions(), EVERYTHING], ids=["replayed", "for real"])
def test_a_fault_that_leaves_the_result_leaves_its_type(tools, tmp_path):
    path, line = tmp_path / "run.json", parse_fault("tool=price: stdout_noise")
    with program(record=path) as run:
        assert run.price(order=7) == Price(7)
    with program(recording=path, faults=[line], tools=tools) as run:
        assert run.price(order=7) == Price(7)
        assert len(run.server.fired()) == 1


@pytest.mark.parametrize("held", ["refund", "mail"])
def test_an_answer_is_held_until_another_call_has_ended(held):
    other = "mail" if held == "refund" else "refund"
    with replayed(f"tool={held} call=1: held_until tool={other} call=1") as run:
        assert run.at_once(run.refund, run.mail) == [other, held]
        assert run.server.unfired() == []


def test_a_tool_that_runs_is_held_like_one_that_is_replayed():
    with replayed("tool=mail call=1: held_until tool=refund call=1", tools=EVERYTHING) as run:
        assert run.at_once(run.mail, run.refund) == ["refund", "mail"]
        assert sorted(run.ran) == ["mail", "refund"]


def test_a_call_that_is_held_for_one_that_never_comes_is_answered_and_the_fault_has_not_fired():
    with replayed("tool=refund call=1: held_until tool=mail call=9") as run:
        assert run.refund(order=7) == {"refunded": 7}
        assert len(run.server.unfired()) == 1


def test_a_function_returns_once():
    with replayed("tool=refund: delivered_twice") as run:
        assert run.refund(order=7) == {"refunded": 7}
        assert len(run.server.unfired()) == 1


def test_a_coroutine_is_recorded_and_replayed(tmp_path):
    path = tmp_path / "run.json"
    with program(record=path) as run:
        assert asyncio.run(run.look(order=7)) == "order 7"
    with program(recording=path) as run:
        assert asyncio.run(run.look(order=7)) == "order 7"
        assert run.ran == []


def test_a_default_that_is_given_is_the_same_as_one_that_is_left_out(tmp_path):
    with program(record=tmp_path / "run.json") as recorded:
        search = recorded.searching()
        search(1)
        search(2, currency="EUR")
    with program(recording=tmp_path / "run.json") as again:
        search = again.searching()
        assert search(1, pages=None, currency="EUR") == "1 in EUR"
        assert search(order=2) == "2 in EUR"
        with pytest.raises(RuntimeError, match='"USD"'):
            search(2, "USD")
    assert again.ran == []


def test_arguments_are_recorded_as_they_are_given(tmp_path):
    with program(record=tmp_path / "run.json") as recorded:
        search = recorded.searching()
        search(1)
        search(2, currency="EUR")
    calls = json.loads((tmp_path / "run.json").read_text())["_tools"]["search"]
    assert [call["arguments"] for call in calls] == [{"order": 1}, {"order": 2, "currency": "EUR"}]


def test_a_recorded_call_is_on_disk_before_it_returns(tmp_path):
    path = tmp_path / "run.json"
    with program(record=path) as recorded:
        for order in (1, 2, 3):
            recorded.refund(order=order)
            on_disk = "".join(each.read_text() for each in sorted(tmp_path.glob("run.json*")))
            assert f'"refunded":{order}' in on_disk.replace(" ", "")


def test_a_program_that_cannot_reach_the_socket_asks_over_http(tmp_path):
    with replayed() as replay:
        tools = Tools(f"{replay.server.url}{TOOLS_PATH}", str(tmp_path / "elsewhere"))

        def refund(order: int) -> dict:
            raise AssertionError("it ran")

        tools.take(refund, "refund")
        assert refund(order=7) == {"refunded": 7}


def test_connections_end_with_their_event_loops_and_threads():
    book = {"_version": 2, "_tools": {"look": {"result": "order 7"}, "mail": {"result": "sent"}}}
    with program(responses=book, strict=True) as run:
        run.mail(order=7)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            assert asyncio.run(run.look(order=7)) == "order 7"
            assert run.at_once(run.mail) == ["mail"]
        gc.collect()
        assert len(list(Path("/proc/self/fd").iterdir())) < before + 5  # the server may not have noticed the last ones


def test_an_error_is_raised_again_by_its_class(tmp_path):
    path = tmp_path / "run.json"
    for options in ({"record": path}, {"recording": path}):
        with program(**options) as run, pytest.raises(LookupError, match="no order 13"):
            run.refund(order=13)
    assert run.ran == []


def test_secrets_are_removed_from_arguments_and_results(tmp_path):
    path, secret = tmp_path / "run.json", "sk-proj-" + "a1B2" * 10
    with program(record=path) as run:
        assert run.refund(order=secret) == {"refunded": secret}
    assert secret not in path.read_text()
    with program(recording=path) as run:
        assert run.refund(order=secret) != {"refunded": secret}
        assert run.ran == []


@pytest.mark.parametrize("mode", ["new", "once"])
def test_a_tool_that_always_runs_is_recorded_once(mode, tmp_path):
    path = tmp_path / "run.json"
    for _ in range(2):
        with program(record=path, record_mode=mode, tools=EVERYTHING) as run:
            run.mail(order=7)
            assert run.ran == ["mail"]
    assert calls_in(path) == {"mail": 1}


def test_a_result_that_cannot_be_rebuilt_runs_again_and_is_recorded_once(tmp_path):
    path = tmp_path / "run.json"
    for mode in ("append", "new"):
        with program(record=path, record_mode=mode) as run:
            run.draw(order=7)
            assert run.ran == ["draw"]
    assert calls_in(path) == {"draw": 1}


def test_a_large_result_reaches_the_program_and_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "MAX_MESSAGE_BYTES", 100)
    path = tmp_path / "run.json"
    for mode in ("append", "new"):
        with program(record=path, record_mode=mode) as run:
            assert run.refund(order="x" * 200) == {"refunded": "x" * 200}
            assert run.ran == ["refund"]
    assert json.loads(path.read_text())["_tools"]["refund"][0]["result_type"] == "large result"


def test_fresh_removes_the_tools_that_are_no_longer_called(tmp_path):
    path = tmp_path / "run.json"
    with program(record=path) as run:
        run.mail(order=7)
    with program(record=path, record_mode="fresh") as run:
        run.refund(order=7)
    assert calls_in(path) == {"refund": 1}


def test_a_call_that_cannot_be_recorded_is_not_answered(tmp_path):
    with program(record=tmp_path / "run.json") as run:

        def mail() -> str:
            return "sent"

        assert Tools(f"{run.server.url}{TOOLS_PATH}").take(mail, "x" * 600)  # longer than a key may be
        with pytest.raises(RuntimeError, match="could not be recorded"):
            mail()
        assert [call.outcome for call in run.server.calls] == ["refused"]


def test_a_fork_copies_the_calls_that_it_serves_and_records_the_others(tmp_path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(BOOK))
    with program(recording=before, record=after, live_from=1) as run:
        assert run.refund(order=7) == {"refunded": 7}
        assert run.refund(order=8) == {"refunded": 8}
        assert run.ran == ["refund"]
    assert calls_in(after) == {"refund": 2}


@pytest.fixture
def shared():
    """A recording that processes share."""
    return redis_server.shared().url()


def test_processes_that_share_a_recording_run_a_tool_once(shared):
    with program(record=shared, record_mode="new") as run, program(record=shared, record_mode="new") as other:
        assert run.mail(order=7) == other.mail(order=7) == "sent 1"
        assert run.mail(order=7) == other.mail(order=7) == "sent 2"
        assert (run.ran, other.ran) == (["mail", "mail"], [])
        assert other.server.cache_counts.hits == 2


def test_a_process_waits_for_the_one_that_runs_the_tool(shared):
    with program(record=shared, record_mode="new") as run, program(record=shared, record_mode="new") as other:
        ended = []
        waiting = threading.Thread(target=lambda: ended.append(other.mail(order=7)))
        run.before_mail = waiting.start
        assert run.mail(order=7) == "sent 1"
        waiting.join(30)
        assert ended == ["sent 1"]
        assert other.ran == []


def test_calls_and_faults_are_events():
    sink = MemorySink()
    with replayed("tool=refund call=1: tool_lost", sink=sink) as run:
        with pytest.raises(ConnectionError):
            run.refund(order=7)
        run.mail(order=7)
    fired, *called = sink.events
    assert fired == FaultFired(None, "", "tool_lost", call=1, tool="refund")
    assert [(each.tool, each.error, each.call) for each in called] == [
        ("refund", "ConnectionError", 1),
        ("mail", None, 1),
    ]


def test_tools_that_run_count_as_used():
    with replayed(tools=EVERYTHING) as run:
        run.refund(order=7)
        assert [each.key for each in run.server.unused_exchanges()] == ["_tools.mail"]


def test_what_was_recorded_of_mcp_servers_is_not_the_programs_own():
    wire = {"protocol": "mcp", "body": "{}"}
    book = BOOK | {"_tools": {"notes.add": [MAILED | {"wire": wire}], "mail": [MAILED]}}
    with program(responses=book, strict=True) as run:
        assert [each.key for each in run.server.unused_exchanges()] == ["_tools.mail"]


def test_a_body_that_is_no_question_about_a_tool_is_refused():
    with replayed() as run, httpx2.Client(trust_env=False) as client:
        assert client.post(f"{run.server.url}{TOOLS_PATH}", content=b"[]").status_code == 400
