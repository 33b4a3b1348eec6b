"""Exploring programs, over the wire."""

import time

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.faults import FaultPlan
from offbook.subjects.executors import ThreadExecutor
from offbook.subjects.program.program import ProgramSubject
from tests.explore.runs import plan_of
from tests.subjects.programs import python, subject

HELLO, BYE = {"content": "Hello"}, {"content": "Bye"}
REFUND = {"content": "", "tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order_id": 42}}]}
ONCE = "print(ask(said('Hi'))['content'])"
STUBBORN = """
for _ in range(3):
    try:
        print(ask(said("Hi"))["content"])
        break
    except OSError:
        continue
else:
    sys.exit("no model")
"""
AT_ONCE = """
import collections, pathlib
from http.client import HTTPConnection
from urllib.parse import urlsplit

url = urlsplit(os.environ["OPENAI_BASE_URL"])
cities, log = ["Oslo", "Rome", "Cairo"], pathlib.Path(os.environ["RUNS"])
bodies = {city: json.dumps({"model": "m", "messages": [said(city)]}).encode() for city in cities}
calls = {city: HTTPConnection(url.hostname, url.port) for city in cities}
for city, call in calls.items():
    call.putrequest("POST", url.path + "/chat/completions")
    call.putheader("content-length", str(len(bodies[city])))
    call.endheaders()
order = collections.deque(cities)
order.rotate(len(log.read_text()))
log.write_text(log.read_text() + ".")
for city in order:
    calls[city].send(bodies[city])
print({city: call.getresponse().status for city, call in calls.items()})
"""
TOOLS = "tools=[{'type': 'function', 'function': {'name': 'refund', 'parameters': {'type': 'object'}}}]"
TOOL_LOOP = f"""
messages = [said("Hi")]
while (answer := ask(*messages, {TOOLS})).get("tool_calls"):
    messages.append(answer)
    messages += [{{"role": "tool", "tool_call_id": call["id"], "content": "paid"}} for call in answer["tool_calls"]]
print(answer["content"])
"""


def runs(program, *plans):
    """The clean run, and those with the plans."""
    with program:
        return [program.run(FaultPlan()), *(program.run(plan_of(*plan)) for plan in plans)]


def test_a_run_is_reported_by_its_exit_code_its_output_and_its_calls(tmp_path):
    (run,) = runs(subject(ONCE, tmp_path, HELLO))
    assert run.result == {"exit": 0, "stdout": "Hello\n"}
    assert run.error is None
    assert run.hung == ""
    assert run.diverged == ""
    assert run.fired == ()
    assert run.took_s == 0.0
    (call,) = run.calls
    assert call.number == 1
    assert call.attempt == 1
    assert call.model == "m"
    assert call.outcome == "answered"
    assert not call.has_tools


def test_a_subject_is_named_like_its_command(tmp_path):
    with subject(ONCE, tmp_path, HELLO) as program:
        assert program.name.startswith(python("")[0])


def test_a_request_that_repeats_a_failed_one_gets_its_answer(tmp_path):
    first, once, always = runs(
        subject(STUBBORN, tmp_path, HELLO), ["call=1 attempt=1: connection_reset"], ["call=1: http_error 500"]
    )
    assert once.result == first.result
    assert [(call.number, call.attempt, call.outcome, call.error) for call in once.calls] == [
        (1, 1, "failed", "connection_reset"),
        (1, 2, "answered", ""),
    ]
    assert once.fired == ("call=1 attempt=1: connection_reset",)
    assert once.paths == {"retry": 1}
    assert [call.error for call in always.calls] == ["HTTP 500"] * 3
    assert always.error.kind == "gave up"
    assert always.error.type == "exit 1"
    assert always.error.message == "no model"


def test_an_exit_code_may_be_declared(tmp_path):
    program = subject(STUBBORN, tmp_path, HELLO, declared=("1",))
    _, run = runs(program, ["call=1: http_error 500"])
    assert run.error.kind == "declared"


def test_the_error_that_ends_a_program_is_reported(tmp_path):
    code = "answer = ask(said('Hi'))['content']\nif not answer: raise KeyError('content')"
    _, run = runs(subject(code, tmp_path, HELLO), ["call=1: empty_response"])
    assert run.error.type == "exit 1"
    assert run.error.message == "KeyError: 'content'"


def test_a_program_that_a_signal_ends_has_crashed(tmp_path):
    code = "answer = ask(said('Hi'))['content']\nif not answer: os.kill(os.getpid(), 6)"
    _, run = runs(subject(code, tmp_path, HELLO), ["call=1: empty_response"])
    assert run.error.kind == "undeclared"
    assert run.error.type == "signal 6"


def test_a_program_that_waits_for_ever_has_hung(tmp_path):
    program = subject(ONCE, tmp_path, HELLO, deadline_s=3.0)
    _, run = runs(program, ["call=1: timeout 60000"])
    message = "it waited 3 s for the answer to call 1: no timeout is set, or a longer one (OpenAI(timeout=…))"
    assert run.hung == message
    assert run.result is None
    assert run.error is None
    assert [call.error for call in run.calls] == ["timeout"]


def test_a_program_that_asks_for_ever_has_hung(tmp_path):
    code = """
while True:
    try:
        ask(said("Hi"))
        break
    except OSError:
        pass
"""
    _, run = runs(subject(code, tmp_path, HELLO), ["call=1: http_error 500"])
    assert run.hung == "it made more than 105 model calls"
    assert len(run.calls) == 105


def test_a_request_that_was_never_recorded_has_diverged(tmp_path):
    code = "print(ask(said('Hi' if ask(said('Hm'))['content'] else 'Ho'))['content'])"
    first, run = runs(subject(code, tmp_path, HELLO, BYE), ["call=1: empty_response"])
    assert first.diverged == ""
    assert "is not in the recording" in run.diverged
    assert [call.outcome for call in run.calls] == ["answered", "diverged"]
    assert run.calls[1].error == "HTTP 422"


def test_a_divergence_may_be_answered_with_a_text(tmp_path):
    code = "print(ask(said('Hi' if ask(said('Hm'))['content'] else 'Ho'))['content'])"
    program = subject(code, tmp_path, HELLO, BYE, on_divergence="default", default_response="what?")
    _, run = runs(program, ["call=1: empty_response"])
    assert run.result["stdout"] == "what?\n"
    assert "is not in the recording" in run.diverged
    assert run.calls[1].outcome == "answered"


def test_the_tools_that_answers_asked_for_are_taken_to_have_run(tmp_path):
    first, failed, invalid = runs(
        subject(TOOL_LOOP, tmp_path, REFUND, BYE, side_effects=("refund",)),
        ["call=1: stream_truncate 0"],
        ["call=1: invalid_tool_args"],
    )
    (tool,) = first.tools
    assert tool.tool == "refund"
    assert tool.call == 1
    assert tool.arguments == {"order_id": 42}
    assert tool.result == "paid"
    assert tool.side_effect
    assert tool.has_run
    assert first.calls[0].asks_for == (("refund", {"order_id": 42}),)
    assert first.calls[0].has_tools
    assert failed.tools == ()
    assert invalid.tools == ()


def test_a_conversation_that_is_started_over_runs_its_tools_again(tmp_path):
    code = f"""
for _ in range(2):
    try:
        messages = [said("Hi")]
        while (answer := ask(*messages, {TOOLS})).get("tool_calls"):
            messages += [answer, {{"role": "tool", "tool_call_id": "call_1", "content": "paid"}}]
        break
    except OSError:
        pass
"""
    _, run = runs(subject(code, tmp_path, REFUND, BYE, side_effects=("refund",)), ["call=2 attempt=1: http_error 500"])
    assert run.side_effects == {"refund": 2}
    assert [(call.number, call.attempt) for call in run.calls] == [(1, 1), (2, 1), (3, 1), (2, 2)]


def test_a_try_that_comes_sooner_than_the_answer_asked_for_is_noted(tmp_path):
    code = """
for _ in range(2):
    try:
        ask(said("Hi"))
        break
    except OSError:
        pass
"""
    _, run = runs(subject(code, tmp_path, HELLO), ["call=1 attempt=1: http_error 429 headers.retry-after=30"])
    assert [call.is_too_soon for call in run.calls] == [False, True]


def test_a_conversation_that_gets_lost_is_noted(tmp_path):
    code = """
try:
    ask(said("Be kind.", "system"), said("Hi"))
except OSError:
    ask(said("Hi"))
"""
    _, run = runs(subject(code, tmp_path, HELLO), ["call=1: connection_reset"])
    assert [(call.outcome, call.forgot) for call in run.calls] == [("failed", 0), ("diverged", 1)]


def test_a_stream_has_positions_where_faults_can_fire(tmp_path):
    code = """
body = json.dumps({"model": "m", "messages": [said("Hi")], "stream": True}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
asked = urllib.request.Request(url, body, {"content-type": "application/json"})
print(urllib.request.urlopen(asked).read().count(b"data:"))
"""
    spoken = {"content": "The end", "chunks": [[0.0, "The "], [0.0, "end"]]}
    with subject(code, tmp_path, spoken) as program:
        options = ExploreOptions(variants=select_variants("stream_truncate clean", program.variants))
        exploration = Explorer(program, options).explore()
    assert exploration.clean.calls[0].is_streamed
    assert [str(each.case) for each in exploration.results] == [
        f"call=1 attempt=1 chunk={place}: stream_truncate raise=clean" for place in (0, 2, 3)
    ]
    assert [each.run.result["stdout"] for each in exploration.results] == ["0\n", "2\n", "3\n"]


def test_each_run_has_a_temporary_folder_of_its_own_and_nothing_mentions_it_or_ports(tmp_path):
    code = """
import tempfile
print(tempfile.gettempdir(), os.listdir(tempfile.gettempdir()))
print(os.environ["OPENAI_BASE_URL"], os.environ["OFFBOOK_URL"])
print(os.environ["OPENAI_BASE_URL"].split("/")[2], os.environ["WORD"], os.environ["ANTHROPIC_API_KEY"])
open(os.path.join(tempfile.gettempdir(), "left"), "w").close()
ask(said("Hi"))
"""
    first, second = runs(subject(code, tmp_path, HELLO, env={"WORD": "tree"}), [])
    assert first.result["stdout"] == ("$TMPDIR []\nhttp://offbook/v1 http://offbook\noffbook tree offbook\n")
    assert second == first


def test_the_same_exploration_is_the_same_with_any_number_of_threads(tmp_path):
    def explore(workers):
        with subject(TOOL_LOOP, tmp_path, REFUND, BYE, side_effects=("refund",)) as program:
            options = ExploreOptions(variants=select_variants("http_error 500,malformed_response", program.variants))
            return Explorer(program, options, executor=ThreadExecutor(program, workers)).explore()

    one, two = explore(1), explore(3)
    assert one == two
    assert len(one.results) >= 6


def test_calls_that_are_made_at_once_have_the_same_numbers_in_every_run(tmp_path):
    (tmp_path / "runs").write_text("")
    with subject(AT_ONCE, tmp_path, *[HELLO] * 3, env={"RUNS": str(tmp_path / "runs")}) as program:
        clean, *failed = [program.run(plan) for plan in [FaultPlan(), *[plan_of("call=2: http_error 404")] * 3]]
    assert clean.result["stdout"].strip() == "{'Oslo': 200, 'Rome': 200, 'Cairo': 200}"
    assert {run.result["stdout"].strip() for run in failed} == {"{'Oslo': 200, 'Rome': 404, 'Cairo': 200}"}


def test_a_program_that_makes_calls_at_once_is_explored_the_same_again(tmp_path):
    def explore():
        with subject(AT_ONCE, tmp_path, *[HELLO] * 3, env={"RUNS": str(tmp_path / "runs")}) as program:
            options = ExploreOptions(variants=select_variants("http_error 400", program.variants))
            return Explorer(program, options).explore()

    (tmp_path / "runs").write_text("")
    assert explore() == explore()


def test_an_executor_stops_what_runs_when_the_results_are_not_wanted(tmp_path):
    def stop(_):
        raise KeyboardInterrupt

    with subject(ONCE, tmp_path, HELLO, deadline_s=600.0) as program:
        options = ExploreOptions(variants=select_variants("connection_reset,timeout", program.variants))
        started_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            Explorer(program, options, executor=ThreadExecutor(program, 4), on_case=stop).explore()
        assert time.monotonic() - started_s < 30.0
        assert program.run(FaultPlan()).hung


def test_what_cannot_be_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="the command is empty"):
        ProgramSubject([], replay=tmp_path / "run.json")
    with pytest.raises(InputError):
        ProgramSubject(["true"], replay=tmp_path / "none.json")
    with subject("", tmp_path, HELLO) as program, pytest.raises(InputError, match="made no call"):
        Explorer(program, ExploreOptions(variants=())).explore()


REPORTS_HTTP = """
def report(body):
    request = urllib.request.Request(os.environ["OFFBOOK_URL"] + "/_offbook/effects", body.encode())
    try:
        urllib.request.urlopen(request)
    except OSError:
        pass
"""


def test_effects_are_reported_in_a_file_or_over_http(tmp_path):
    code = (
        REPORTS_HTTP
        + """
import offbook
ask(said("Hi"))
offbook.effect("refund", order=42)
report('[{"tool": "mail", "arguments": {"to": "Ann"}}, {"tool": "over HTTP", "outcome": "reached"}]')
offbook.reached("in a file")
"""
    )
    (run,) = runs(subject(code, tmp_path, HELLO))
    assert run.reached == ("in a file", "over HTTP")
    assert [(str(each), each.source) for each in run.effects] == [
        ("refund(order=42)", "observed"),
        ('mail(to="Ann")', "observed"),
    ]


def test_a_call_knows_how_many_effects_were_reported_before_its_answer(tmp_path):
    code = (
        REPORTS_HTTP
        + """
ask(said("Hi"))
report('{"tool": "refund"}')
ask(said("Hi"), said("Hi again"))
"""
    )
    (run,) = runs(subject(code, tmp_path, HELLO, HELLO))
    assert [call.effects_before for call in run.calls] == [0, 1]


def test_what_is_reported_of_a_tool_replaces_what_is_inferred_of_it(tmp_path):
    code = TOOL_LOOP + "if answer['content'] == 'Bye': import offbook; offbook.effect('refund', order_id=42)"
    first, cut = runs(subject(code, tmp_path, REFUND, BYE), ["call=2: empty_response"])
    assert [(effect.source, effect.tool) for effect in first.effects] == [("observed", "refund")]
    assert cut.effects == ()


def test_effects_are_inferred_from_the_conversation_unless_the_tool_only_reads(tmp_path):
    (run,) = runs(subject(TOOL_LOOP, tmp_path, REFUND, BYE))
    assert [(str(each), each.outcome, each.source) for each in run.effects] == [
        ("refund(order_id=42)", "done", "inferred")
    ]
    (run,) = runs(subject(TOOL_LOOP, tmp_path, REFUND, BYE, read_only=("refund",)))
    assert run.effects == ()
    assert run.declarations["refund"].read_only


def test_a_report_over_http_that_cannot_be_read_ends_the_exploration(tmp_path):
    code = REPORTS_HTTP + "ask(said('Hi'))\nreport('paid')"
    with (
        subject(code, tmp_path, HELLO) as program,
        pytest.raises(InputError, match="/_offbook/effects: it is not JSON"),
    ):
        program.run(FaultPlan())


def test_the_error_class_that_ends_a_program_may_be_declared(tmp_path):
    code = "answer = ask(said('Hi'))['content']\nif not answer: raise KeyError('content')"
    _, run = runs(subject(code, tmp_path, HELLO, declared=("KeyError",)), ["call=1: empty_response"])
    assert run.error.kind == "declared"


def test_a_program_may_run_into_its_own_timeouts_one_after_the_other(tmp_path):
    code = """
for _ in range(4):
    try:
        body = json.dumps({"model": "m", "messages": [said("Hi")]}).encode()
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        asked = urllib.request.Request(url, body, {"content-type": "application/json"})
        urllib.request.urlopen(asked, timeout=0.2).read()
        break
    except OSError:
        continue
"""
    _, run = runs(subject(code, tmp_path, HELLO, deadline_s=None), ["call=1: timeout 60000"])
    assert run.hung == ""
    assert run.result["exit"] == 0
    assert len(run.calls) == 4


def test_a_program_that_waits_for_nothing_of_ours_says_after_which_call(tmp_path):
    code = "if not ask(said('Hi'))['content']: import threading; threading.Event().wait()"
    _, run = runs(subject(code, tmp_path, HELLO, deadline_s=0.5), ["call=1: empty_response"])
    assert run.hung.startswith("it had not ended")
    assert run.hung.endswith("after call 1, and was not waiting for an answer")


CHECKS_FIRST = """
def check(path):
    try:
        urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + path, data=DATA).read()
    except OSError:
        pass

try:
    answer = ask(said("Hi"))
except OSError:
    check(PATH)
    answer = ask(said("Hi"))
print(answer["content"])
"""


@pytest.mark.parametrize("path", ["/models", "/health", "/embeddings"])
def test_a_call_that_is_no_part_of_a_conversation_leaves_a_run_decided(tmp_path, path):
    data = b'{"model": "e", "input": "Hi"}' if path == "/embeddings" else None
    code = f"PATH, DATA = {path!r}, {data!r}\n{CHECKS_FIRST}"
    _, run = runs(subject(code, tmp_path, HELLO, on_divergence="explore"), ["call=1 attempt=1: http_error 500"])
    assert run.diverged == ""
    assert run.result["stdout"] == "Hello\n"


NAMES_WHAT_DIFFERS = f"""
import tempfile
from urllib.parse import urlsplit
url = urlsplit(os.environ["OPENAI_BASE_URL"])
path = tempfile.gettempdir() + "/out.txt"
messages = [said("Hi")]
while (answer := ask(*messages, {TOOLS})).get("tool_calls"):
    messages.append(answer)
    messages += [dict(role="tool", tool_call_id=call["id"], content=path) for call in answer["tool_calls"]]
with open(os.environ["OFFBOOK_EFFECTS"], "a") as file:
    file.write(json.dumps({{"tool": "write_file", "arguments": {{"paths": [path], "headers": {{path: url.path}}}}}}))
if not answer["content"]:
    raise OSError(f"host='{{url.hostname}}', port={{url.port}}: no answer from url: {{url.path}}/chat/completions")
"""


def test_effects_tool_results_and_errors_do_not_mention_what_differs_in_every_run(tmp_path):
    first, second = runs(subject(NAMES_WHAT_DIFFERS, tmp_path, REFUND, BYE), ["call=2: empty_response"])
    written = {"paths": ["$TMPDIR/out.txt"], "headers": {"$TMPDIR/out.txt": "/v1"}}
    assert [each.arguments for each in first.effects if each.tool == "write_file"] == [written]
    assert second.effects == first.effects
    assert [each.result for each in second.tools] == ["$TMPDIR/out.txt"]
    assert second.error.message == "OSError: host='127.0.0.1', port=…: no answer from url: /v1/chat/completions"


def test_a_tool_whose_effects_are_reported_cannot_be_declared_to_have_none(tmp_path):
    code = REPORTS_HTTP + 'ask(said("Hi"))\nreport(\'{"tool": "refund"}\')'
    with pytest.raises(InputError, match="the program reports effects of 'refund', which is declared to have none"):
        runs(subject(code, tmp_path, HELLO, read_only=("refund",)))
