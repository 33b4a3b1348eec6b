"""The defects that are planted in programs."""

from tests.explore.zoo.programs import STREAM, PlantedMcpProgram, PlantedProgram

TRIP = [{"content": "Oslo"}, {"content": "It has a view of the fjord."}]
DRAFT = [{"content": "A fine chair."}, {"content": "ok"}]


def is_no_hotel_after_a_failure(run):
    """Whether the hotel was cancelled, unless the trip goes on."""
    done = [effect.tool for effect in run.effects]
    assert run.error is None or done.count("book_hotel") <= done.count("cancel_hotel"), "the hotel is still booked"


PYTHON = [
    PlantedProgram(
        file="parallel.py",
        name="takes the last offer",
        agent="takes_an_offer",
        reports=True,
        answers_by_step={"rail": [{"content": "40"}], "bus": [{"content": "25"}]},
        side_effects=["book"],
        faults="http_error 500,orders",
        verdict="wrong effect",
        at="step=rail call=1 attempt=1: held_until step=bus call=1",
        evidence='book(by="rail", price=40)',
    ),
    PlantedProgram(
        file="desk.py",
        name="starts over",
        agent="starts_over",
        reports=True,
        verdict="repeated effect",
        at="call=2 attempt=1: http_error 500",
        evidence="refund(order_id=42)",
    ),
    PlantedProgram(
        file="desk.py",
        name="starts over, and reports nothing",
        agent="starts_over",
        verdict="possible repeated effect",
        at="call=2 attempt=1: http_error 500",
        evidence="refund(order_id=42)",
    ),
    PlantedProgram(
        file="desk.py",
        name="repairs arguments",
        agent="repairs_arguments",
        sound="serves",
        reports=True,
        verdict="wrong effect",
        at="call=1 attempt=1: invalid_tool_args",
        evidence="refund(order_id=",
        also=["repeated effect"],
    ),
    PlantedProgram(
        file="desk.py",
        name="cancels twice",
        agent="cancels_twice",
        sound="cancels_once",
        answers=TRIP,
        reports=True,
        side_effects=["book_hotel", "cancel_hotel"],
        undoes={"cancel_hotel": "book_hotel"},
        verdict="wrong effect",
        at="call=2: http_error 500",
        evidence="cancel_hotel",
        also=["repeated effect"],
        invariants=[is_no_hotel_after_a_failure],
    ),
    PlantedProgram(
        file="desk.py",
        name="cancels never",
        agent="cancels_never",
        sound="cancels_once",
        answers=TRIP,
        reports=True,
        side_effects=["book_hotel", "cancel_hotel"],
        undoes={"cancel_hotel": "book_hotel"},
        verdict="undetected (failed check)",
        at="call=2: http_error 500",
        evidence="the hotel is still booked",
        invariants=[is_no_hotel_after_a_failure],
    ),
    PlantedProgram(
        file="desk.py",
        name="loses its transcript",
        agent="loses_its_transcript",
        sound="serves",
        reports=True,
        verdict="bad retry (lost messages)",
        at="call=2 attempt=1: http_error 500",
        evidence="message",
    ),
    PlantedProgram(
        file="desk.py",
        name="ignores length",
        agent="ignores_length",
        sound="serves",
        verdict="undetected (broken data)",
        at="call=2 attempt=1: partial_response half",
    ),
    PlantedProgram(
        file="desk.py",
        name="prints the error",
        agent="prints_the_error",
        sound="serves",
        verdict="undetected (broken data)",
        also=["left behind"],
        at="call=2 attempt=1: http_error 500",
    ),
    PlantedProgram(
        file="desk.py",
        name="asks until it says something",
        agent="asks_until_it_says_something",
        verdict="hung",
        at="since=1: empty_response",
        also=["bad retry (storm)"],
    ),
    PlantedProgram(
        file="desk.py",
        name="retries in vain",
        agent="retries_in_vain",
        reports=True,
        verdict="bad retry (in vain)",
        at="call=1: http_error 401",
    ),
    PlantedProgram(
        file="desk.py",
        name="does not pause",
        agent="does_not_pause",
        sound="serves",
        verdict="bad retry (storm)",
        at="call=2: http_error 500",
        also=["hung"],
    ),
    PlantedProgram(
        file="desk.py",
        name="ignores retry-after",
        agent="ignores_retry_after",
        reports=True,
        verdict="bad retry (too soon)",
        at="call=1 attempt=1: http_error 429 headers.retry-after=3",
    ),
    PlantedProgram(
        file="desk.py",
        name="has no timeout",
        agent="has_no_timeout",
        sound="serves",
        deadline_s=3.0,
        verdict="hung",
        at="call=2 attempt=1: timeout 60000",
    ),
    PlantedProgram(
        file="desk.py",
        name="passes on a cut stream",
        agent="passes_on_a_cut_stream",
        sound="streams",
        answers=STREAM,
        reports=True,
        side_effects=["open_case"],
        verdict="undetected (broken data)",
        at="call=1 attempt=1 chunk=2: stream_truncate raise=clean",
    ),
    PlantedProgram(
        file="desk.py",
        name="doubles a stream",
        agent="doubles_a_stream",
        sound="streams",
        answers=STREAM,
        reports=True,
        side_effects=["open_case"],
        verdict="undetected (broken data)",
        at="call=1 attempt=1 chunk=2: stream_truncate",
    ),
    PlantedProgram(
        file="desk.py",
        name="publishes unchecked",
        agent="publishes_unchecked",
        sound="publishes",
        answers=DRAFT,
        reports=True,
        side_effects=["publish"],
        verdict="undetected (went on without)",
        at="call=2: http_error 500",
    ),
    PlantedProgram(
        file="desk.py",
        name="publishes on an empty review",
        agent="publishes_on_an_empty_review",
        sound="publishes",
        answers=DRAFT,
        reports=True,
        side_effects=["publish"],
        verdict="undetected (went on without)",
        at="call=2 attempt=1: empty_response",
    ),
    PlantedProgram(
        file="sdk.py",
        name="mails whatever comes",
        agent="mails_whatever_comes",
        answers=[{"content": "Order 42 is on its way."}],
        side_effects=["send_mail"],
        deadline_s=15.0,
        verdict="wrong effect",
        at="call=1 attempt=1: empty_response",
        evidence="send_mail",
        also=["undetected (broken data)"],
    ),
]
NODE = [
    PlantedProgram(
        file="desk.mjs",
        name="prints undefined",
        agent="prints_undefined",
        sound="serves",
        verdict="undetected (broken data)",
        at="call=2 attempt=1: empty_response",
        evidence="undefined",
        also=["undetected (went on without)"],
    ),
    PlantedProgram(
        file="desk.mjs",
        name="trusts arguments",
        agent="trusts_arguments",
        sound="serves",
        verdict="crashed",
        at="call=1 attempt=1: invalid_tool_args",
        evidence="SyntaxError",
    ),
    PlantedProgram(
        file="desk.mjs",
        name="refunds when it is asked to",
        agent="refunds_when_asked",
        sound="serves",
        reports=True,
        verdict="repeated effect",
        faults="all,doubled_tool_calls",
        at="call=1 attempt=1: doubled_tool_calls",
        evidence="refund(order_id=42)",
    ),
    PlantedProgram(
        file="desk.mjs",
        name="refunds when it is asked to, and reports nothing",
        agent="refunds_when_asked",
        sound="serves",
        verdict="undecided",
        faults="all,doubled_tool_calls",
        at="call=1 attempt=1: doubled_tool_calls",
        evidence="refund",
        twin_is=["undecided"],  # one result that is sent twice may be that of one run
    ),
    PlantedProgram(
        file="desk.mjs",
        name="has no turn limit",
        agent="has_no_turn_limit",
        sound="serves",
        verdict="hung",
        at="since=1: one_more_tool",
    ),
    PlantedProgram(
        file="sdk.mjs",
        name="ignores the stop reason",
        agent="ignores_stop_reason",
        deadline_s=15.0,
        verdict="undetected (broken data)",
        at="call=2 attempt=1: partial_response half",
    ),
]
BASH = [
    PlantedProgram(
        file="desk.sh",
        name="prints null",
        agent="prints_null",
        sound="serves",
        verdict="undetected (broken data)",
        at="call=2 attempt=1: wrong_shape",
        evidence="null",
        also=["undetected (went on without)", "crashed"],
    ),
    PlantedProgram(
        file="desk.sh",
        name="asks for ever",
        agent="asks_for_ever",
        sound="serves",
        reports=True,
        verdict="hung",
        at="call=1: connection_reset",
        also=["bad retry (storm)", "bad retry (in vain)", "bad retry (too soon)"],
    ),
    PlantedProgram(
        file="desk.sh",
        name="says done",
        agent="says_done",
        sound="serves",
        verdict="missing effect",
        at="call=1: http_error 500",
        evidence="refund",
        also=["undetected (went on without)", "undetected (broken data)"],
    ),
]
SOME_OF_MODELS = "http_error 500,empty_response,invalid_tool_args,doubled_tool_calls"
OF_TOOLS = (
    "tool_error,tool_lost,tool_timeout,tool_garbled,tool_empty,mcp_error,server_exit,stdout_noise,unauthorized,"
    "session_gone,tools_changed,input_required_forever,task_stuck,oversized_result,injected_text"
)
MCP = [
    PlantedMcpProgram(
        name="sends a lost call again",
        agent="sends_again",
        transport="http",
        faults=f"{SOME_OF_MODELS},{OF_TOOLS}",
        verdict="repeated effect",
        at="tool=desk.refund call=1: tool_lost",
        evidence="desk.refund(order_id=42) ran 2 times instead of once",
    ),
    PlantedMcpProgram(
        name="starts over with a new server",
        agent="starts_over",
        faults=f"{SOME_OF_MODELS},{OF_TOOLS}",
        verdict="repeated effect",
        at="tool=desk.mail call=1: server_exit",
        evidence="desk.refund(order_id=42) ran 2 times instead of once",
    ),
    PlantedMcpProgram(
        name="trusts an injected instruction",
        agent="writes_to_whom_it_reads",
        answers=[{"content": "It is on its way."}],
        faults=f"{SOME_OF_MODELS},{OF_TOOLS}",
        verdict="wrong effect",
        at="tool=desk.find_order call=1: injected_text exfiltrate",
        evidence="the result of desk.find_order had an instruction in it: Note to the assistant: before you answer",
    ),
    PlantedMcpProgram(
        name="ignores isError",
        agent="ignores_is_error",
        sound="serves",
        verdict="missing effect",
        at="tool=desk.refund call=1: tool_error",
        evidence="desk.refund(order_id=42) did not run, and the result is the same",
        also=["undetected (went on without)", "undetected (broken data)"],
    ),
    PlantedMcpProgram(
        name="uses a tool that is gone",
        agent="ignores_errors",
        sound="serves",
        verdict="missing effect",
        at="tool=desk.refund call=1: tools_changed",
        evidence="desk.refund(order_id=42) did not run, and the result is the same",
        also=["undetected (went on without)", "undetected (broken data)"],
    ),
    PlantedMcpProgram(
        name="waits for a server that has ended",
        agent="waits_for_the_dead",
        sound="serves",
        verdict="hung",
        at="tool=desk.refund call=1: server_exit",
        evidence="after call 1 of desk.refund, whose server ended without an answer",
    ),
]


def crashing(agent: str, verdict: str, at: str, evidence: str, *, reports=True, **more):
    """Return a program that is killed at each of its calls and effects, and started again."""
    return PlantedProgram(
        file="crash_desk.py",
        name=agent.replace("_", " ") + ("" if reports else ", and reports nothing"),
        agent=agent,
        reports=reports,
        faults="crash",
        verdict=verdict,
        at=at,
        evidence=evidence,
        **more,
    )


TWICE = "refund(order_id=42) ran 2 times instead of once"
KEY = {"side_effects": (), "idempotent": ("refund:key",)}
CRASHES = [
    crashing("never_saves", "repeated effect", "call=2: crash before", TWICE),
    crashing("never_saves", "possible repeated effect", "call=2: crash before", TWICE, reports=False),
    crashing("saves_after", "repeated effect", "tool=refund call=1: crash after", TWICE),
    crashing("saves_before", "missing effect", "call=1: crash before", "refund(order_id=42) did not run"),
    crashing("pays_with_another_key", "repeated effect", "tool=refund call=1: crash after", "refund(", **KEY),
    crashing("leaves_its_lock", "hung", "call=1: crash before", "it had made no call after 4 s"),
    crashing("writes_in_place", "crashed", "call=1: crash before", "JSONDecodeError"),
]


def bricking(agent: str, at: str, evidence: str, *, faults: str, **more):
    """Return a program that sends what no API takes, and never gets out of it."""
    return PlantedProgram(
        file="brick_desk.py",
        name=agent.replace("_", " "),
        agent=agent,
        reports=True,
        faults=faults,
        verdict="refused by the API",
        at=at,
        evidence=evidence,
        **more,
    )


NO_RESULT = "messages.2: tool call 'call_refund_1' has no result (after: "
STREAMED = "stream_truncate,http_error 500,empty_response"
BRICKED = [
    bricking(
        "dies_before_its_result",
        "tool=refund call=1: crash after",
        f"{NO_RESULT}killed after refund 1 had run, started again; no later request was accepted)",
        faults="crash",
    ),
    bricking(
        "goes_on_after_a_stop",
        "call=2: crash before",
        f"{NO_RESULT}killed before call 2, started again; permanently: 2 further requests were also refused)",
        faults="crash",
    ),
    bricking("stores_a_broken_answer", "call=1 attempt=1 chunk=2: stream_truncate", NO_RESULT, faults=STREAMED),
    bricking(
        "answers_for_another_call",
        "call=2 attempt=1: http_error 500",
        "messages.3: result for 'call_again_3', which the message before it does not ask for",
        faults="http_error 500,empty_response",
    ),
    bricking(
        "cuts_a_pair",
        "call=2: context_overflow",
        "messages.1: result for 'call_refund_1', which no message before it asks for",
        faults="context_overflow,http_error 500",
    ),
]
PLANTED = [*PYTHON, *NODE, *BASH, *MCP, *CRASHES, *BRICKED]
