"""Whatever a model answers, the loop ends as documented."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from offbook import Response, Usage, run
from offbook.agent import (
    AgentError,
    ContextManager,
    NoCompact,
    SlidingWindowCompact,
    TieredCompact,
    ToolCall,
    ToolDef,
    ToolResolutionError,
    ToolSpec,
)
from tests.agent.small_agents import agent, attempt, tool

MAX_ITERATIONS = 8


class Page(BaseModel):
    page: int


def misbehave(page):
    """Fails in a way that depends on the page alone."""
    match page % 4:
        case 0:
            raise ToolResolutionError("no such page")
        case 1:
            raise ValueError("broken page")
    return {"page": page}


def workflow():
    return agent(
        ToolDef(ToolSpec("read", "Reads.", Page), misbehave),
        tool("edit", prerequisites=[{"tool": "read", "match_arg": "page"}]),
        tool("other"),
        required=["fetch", "read"],
        terminal=["submit", "other"],
    )


NAMES = st.sampled_from(["fetch", "submit", "read", "edit", "other", "nonexistent", ""])
ARGS = st.dictionaries(st.sampled_from(["page", "junk"]), st.integers(-2, 5) | st.text(max_size=3), max_size=2)
CALLS = st.builds(
    ToolCall,
    tool=NAMES,
    args=ARGS,
    id=st.none() | st.sampled_from(["call_0", "a", ""]),
    reasoning=st.none() | st.text(max_size=5),
    raw_arguments=st.none() | st.just("{broken"),
    error=st.none() | st.just("fault"),
)
ANSWERS = st.builds(
    Response,
    content=st.text(max_size=20),
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    reasoning=st.none() | st.text(max_size=5),
    usage=st.builds(Usage.of, st.integers(0, 3000), st.integers(0, 50)),
    cost_usd=st.floats(0, 0.4),
)
TEXTS = st.sampled_from(
    ['{"tool": "fetch", "args": {}}', 'read[ARGS]{"page": 2}', '<tool_call>{"name": "submit"', "I give up.", ""]
) | st.text(max_size=30)
LINES = st.lists(st.one_of(ANSWERS, CALLS, st.lists(CALLS, max_size=3), TEXTS), min_size=MAX_ITERATIONS)
STRATEGIES = st.sampled_from([NoCompact(), SlidingWindowCompact(keep_recent=2), TieredCompact(keep_recent=1)])


def end_of(lines, strategy, *, stream):
    attempted = attempt(
        lines,
        workflow(),
        max_iterations=MAX_ITERATIONS,
        policy={"budget_usd": 1.0, "max_repetition_refusals": 1, "max_same_calls": 2},
        context_manager=ContextManager(strategy, budget_tokens=120),
        stream=stream,
    )
    return run(attempted, virtual_time=True)


@given(lines=LINES, strategy=STRATEGIES, stream=st.booleans())
def test_any_script_ends_as_documented_with_one_result_for_each_call_and_twice_in_the_same_way(lines, strategy, stream):
    first, second = (end_of(lines, strategy, stream=stream) for _ in range(2))
    assert isinstance(first.error, AgentError | None)
    assert len(first.client.calls) <= MAX_ITERATIONS
    for messages in [first.messages, *[call.messages for call in first.client.calls]]:
        assert_answered([message if isinstance(message, dict) else message.to_dict() for message in messages])
    assert first.messages == second.messages
    assert [list(call.messages) for call in first.client.calls] == [list(call.messages) for call in second.client.calls]
    assert first.result == second.result
    assert repr(first.error) == repr(second.error)


def assert_answered(messages):
    """Each call has an id of its own, and the tool messages right behind it answer just its calls, in order."""
    ids, open_ids = set(), []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
            continue
        assert not open_ids
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
        assert not ids & set(open_ids)
        ids.update(open_ids)
    assert not open_ids
