"""One fault of every type, and strategies for all that a plan can hold."""

import json

from hypothesis import strategies as st

from offbook.faults import (
    At,
    Chaos,
    ConnectionReset,
    ContentFilter,
    ContextOverflow,
    DoubledToolCalls,
    DuplicateItem,
    EmptyResponse,
    FaultPlan,
    FieldMissing,
    GarbledContent,
    HttpError,
    InjectedText,
    InputRequiredForever,
    InvalidToolArgs,
    MalformedResponse,
    McpError,
    OneMoreTool,
    OversizedResult,
    PartialResponse,
    PreviousAnswer,
    Refusal,
    ServerExit,
    SessionGone,
    SharedToolId,
    Slow,
    SlowDrip,
    StdoutNoise,
    StreamStall,
    StreamTruncate,
    TaskStuck,
    Timeout,
    ToolCallFault,
    ToolEmpty,
    ToolError,
    ToolGarbled,
    ToolLost,
    ToolNoop,
    ToolOther,
    ToolsChanged,
    ToolStale,
    ToolTimeout,
    TruncatedList,
    Unauthorized,
    UnknownTool,
    ValueChanged,
    WrongContentType,
    WrongFields,
    WrongNames,
    WrongShape,
    WrongTypes,
    WrongValues,
    WsClose,
    WsReorder,
    WsRepeat,
)

SAMPLES = [
    ConnectionReset(),
    ContentFilter(),
    ContextOverflow(),
    DoubledToolCalls(),
    EmptyResponse(),
    GarbledContent(),
    HttpError(429, {"Retry-After": "30"}, "slow down"),
    InvalidToolArgs(),
    MalformedResponse("not valid json"),
    OneMoreTool(),
    PartialResponse(),
    PreviousAnswer(),
    Refusal("I would rather not."),
    SharedToolId(),
    Slow(3000.0),
    SlowDrip(250.0),
    StreamStall(2, 5000.0),
    StreamTruncate(2, "error_event"),
    Timeout(5000.0),
    ToolCallFault("get_weather", {"city": "Oslo"}, "the station is down"),
    UnknownTool(),
    WrongContentType("text/plain"),
    WrongFields(),
    WrongNames(),
    WrongShape("[]"),
    WrongTypes(),
    WrongValues(),
    WsClose(1013, "busy", 2),
    WsReorder(1),
    WsRepeat(2),
]
TOOL_SAMPLES = [
    DuplicateItem(),
    FieldMissing("status"),
    InjectedText("helpful"),
    InputRequiredForever("Sure?"),
    McpError(-32602, "Invalid params"),
    OversizedResult(2000),
    ServerExit(137),
    SessionGone(),
    StdoutNoise("npm warn"),
    TaskStuck(),
    ToolEmpty(),
    ToolError("the service is down"),
    ToolGarbled("<html>"),
    ToolLost("connection reset"),
    ToolNoop(),
    ToolOther(),
    ToolStale(),
    ToolTimeout(5000.0),
    ToolsChanged("schema"),
    TruncatedList(),
    Unauthorized(),
    ValueChanged("order"),
]

texts = st.text(max_size=12) | st.sampled_from(["", "30", "null", "a b", 'say "hi"', "a=b", "x: y", "{", '"', "\n"])
names = texts.filter(bool)
counts = st.integers(1, 10**6)
times_ms = st.sampled_from([0.0, 0.5, 5000.0]) | st.floats(0, 1e10)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
header_texts = st.from_regex(r"[!-~]([ -~]{0,9}[!-~])?", fullmatch=True) | st.sampled_from(["404", "a b", '"', "null"])
header_names = st.from_regex(r"[a-zA-Z0-9-]{1,9}", fullmatch=True) | st.sampled_from(["a.b", "x_y", "~"])
stream_faults = st.one_of(
    st.builds(
        StreamTruncate,
        st.integers(0, 99),
        st.sampled_from(["ConnectionError", "TimeoutError", "clean", "cut", "error_event", "malformed"]),
    ),
    st.builds(StreamStall, st.integers(0, 99), times_ms),
)
faults = st.one_of(
    st.sampled_from(SAMPLES),
    stream_faults,
    st.builds(HttpError, st.integers(400, 599), st.dictionaries(header_names, header_texts, max_size=3), texts),
    st.builds(MalformedResponse, texts),
    st.builds(PartialResponse, st.sampled_from(["whole", "half"])),
    st.builds(Refusal, texts),
    st.builds(Slow, times_ms),
    st.builds(SlowDrip, times_ms),
    st.builds(Timeout, times_ms),
    st.builds(ToolCallFault, names, st.dictionaries(texts, json_values, max_size=3), texts),
    st.builds(WrongContentType, header_texts),
    st.builds(WrongShape, json_values.map(json.dumps)),
)
tool_faults = st.one_of(
    st.sampled_from(TOOL_SAMPLES),
    st.builds(ToolError, texts),
    st.builds(ToolGarbled, texts),
    st.builds(ToolLost, texts),
    st.builds(ToolTimeout, times_ms),
)
call_numbers = st.fixed_dictionaries({}, optional={"call": counts}) | st.fixed_dictionaries({"since": counts})
tool_sites = st.builds(lambda tool, numbers: At(tool=tool, **numbers), names, call_numbers)
sites = st.builds(
    lambda workflow, step_id, numbers, attempt: At(workflow=workflow, step_id=step_id, attempt=attempt, **numbers),
    st.none() | names,
    st.none() | names,
    call_numbers,
    st.none() | counts,
)
planned_faults = st.one_of(
    st.builds(lambda at, fault: at.fail(fault), sites, faults),
    st.builds(lambda at, fault: at.fail(fault), tool_sites, tool_faults),
    st.builds(
        lambda at, chunk, ending: At(step_id=at.step_id, call=at.call, chunk=chunk).fail(StreamTruncate(0, ending)),
        sites,
        st.integers(0, 99),
        st.sampled_from(["ConnectionError", "clean"]),
    ),
)
chaoses = st.builds(Chaos, st.integers(), st.floats(0, 1), st.lists(faults, min_size=1, max_size=3).map(tuple))
plans = st.builds(
    lambda lines, chaos: FaultPlan(lines, chaos=chaos), st.lists(planned_faults, max_size=4), st.none() | chaoses
)
