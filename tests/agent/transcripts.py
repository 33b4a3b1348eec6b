"""Transcripts for tests: builders, random valid ones, and what makes a conversation valid."""

from hypothesis import strategies as st

from offbook.agent.context import estimated_tokens
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo

NUDGE_TYPES = (MessageType.STEP_NUDGE, MessageType.PREREQUISITE_NUDGE, MessageType.REPETITION_NUDGE)


def system(text="You are an agent."):
    return Message(MessageRole.SYSTEM, text, MessageMeta(MessageType.SYSTEM_PROMPT))


def user(text="Go."):
    return Message(MessageRole.USER, text, MessageMeta(MessageType.USER_INPUT))


def reasoning(text="Let me think."):
    return Message(MessageRole.ASSISTANT, text, MessageMeta(MessageType.REASONING, 0))


def text(content="Here it is."):
    return Message(MessageRole.ASSISTANT, content, MessageMeta(MessageType.TEXT_RESPONSE, 0))


def nudge(content="That is no tool call.", of=MessageType.RETRY_NUDGE):
    return Message(MessageRole.USER, content, MessageMeta(of, 0))


def call(*results, tool="fetch", type=MessageType.TOOL_RESULT, step_index=0, args=None):
    """A message with a call for each result, and the results."""
    ids = [f"call_{step_index}_{place}" for place in range(len(results))]
    calls = tuple(ToolCallInfo(tool, {} if args is None else args, call_id) for call_id in ids)
    call_message = Message(MessageRole.ASSISTANT, "", MessageMeta(MessageType.TOOL_CALL, step_index), calls)
    meta = MessageMeta(type, step_index)
    answers = [
        Message(MessageRole.TOOL, result, meta, tool_name=tool, tool_call_id=call_id)
        for result, call_id in zip(results, ids, strict=True)
    ]
    return [call_message, *answers]


def refused(content="[StepEnforcementError] Not yet.", of=MessageType.STEP_NUDGE, step_index=0):
    return call(content, tool="submit", type=of, step_index=step_index)


def size(messages):
    return sum(map(estimated_tokens, messages))


@st.composite
def transcripts(draw, max_turns=14):
    """A conversation as the loop leaves it before a model call, of any length and mixture."""
    texts = st.builds(lambda word, times: word * times, st.sampled_from(["a ", "日本", "x"]), st.integers(0, 400))
    messages = [system(draw(texts)) for _ in range(draw(st.integers(0, 2)))] + [user(draw(texts))]
    for step in range(draw(st.integers(0, max_turns))):
        if draw(st.booleans()):
            messages.append(reasoning(draw(texts)))
        kind = draw(st.sampled_from(["call", "call", "refused", "text", "nudged", "silent", "follow-up", "system"]))
        if kind == "call":
            results = draw(st.lists(texts, min_size=1, max_size=3))
            messages += call(*results, tool=draw(st.sampled_from(["fetch", "parse"])), step_index=step)
        elif kind == "refused":
            messages += refused(draw(texts), draw(st.sampled_from(NUDGE_TYPES)), step)
        elif kind == "text":
            messages += [text(draw(texts)), user(draw(texts))]
        elif kind == "nudged":
            messages += [text(draw(texts)), nudge(draw(texts))]
        else:
            messages.append({"silent": nudge, "follow-up": user, "system": system}[kind](draw(texts)))
    return messages


def assert_valid(messages):
    """Each call has its results directly behind it, one for each id and in order, and there are no others."""
    waiting = []
    for message in messages:
        if message.role == MessageRole.TOOL:
            assert waiting
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call.call_id for call in message.tool_calls]
    assert not waiting
