"""Hypothesis strategies for what codecs carry."""

from hypothesis import strategies as st

from offbook.messages import (
    ReasoningDelta,
    Request,
    Response,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
filled_texts = texts.filter(str.strip)
names = st.from_regex(r"[a-z][a-z0-9_]{0,15}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(names, json_values, max_size=3)
token_counts = st.integers(0, 10**6)
usages = st.builds(Usage.of, token_counts, token_counts)


@st.composite
def tool_calls(draw, least=0):
    """Calls whose ids are unique, in the order in which a codec without ids would number them."""
    count = draw(st.integers(least, 3))
    return tuple(ToolCall(draw(names), draw(arguments), f"call_{number}") for number in range(count))


@st.composite
def responses(draw):
    calls = draw(tool_calls())
    ends = ["tool_calls"] if calls else ["stop", "length", "content_filter"]
    return Response(
        content=draw(texts),
        model=draw(names),
        usage=draw(usages),
        finish_reason=draw(st.sampled_from(ends)),
        tool_calls=calls,
        reasoning=draw(st.none() | filled_texts),
    )


@st.composite
def cut(draw, text):
    """`text` in pieces."""
    pieces = []
    while text:
        size = draw(st.integers(1, len(text)))
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@st.composite
def streams(draw):
    """A response and the deltas that make it up."""
    response = draw(responses())
    deltas = [ReasoningDelta(piece) for piece in draw(cut(response.reasoning or ""))]
    deltas += [TextDelta(piece) for piece in draw(cut(response.content))]
    for index, call in enumerate(response.tool_calls):
        first, *more = draw(cut(call.arguments))
        deltas.append(ToolCallDelta(index, first, call.id, call.tool))
        deltas += [ToolCallDelta(index, piece) for piece in more]
    return response, deltas


@st.composite
def tools(draw):
    """Function tools with distinct names, in the OpenAI chat shape."""
    chosen = draw(st.lists(names, max_size=2, unique=True))
    return tuple(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": draw(filled_texts),
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            },
        }
        for name in chosen
    )


@st.composite
def conversations(draw):
    """A conversation in the OpenAI chat shape: system prompt, user and assistant in turn, tool calls with results."""
    messages = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(filled_texts)})
    numbered = 0
    for _ in range(draw(st.integers(0, 2))):
        messages.append({"role": "user", "content": draw(filled_texts)})
        calls = draw(st.lists(st.tuples(names, arguments), max_size=2))
        if not calls:
            messages.append({"role": "assistant", "content": draw(filled_texts)})
            continue
        ids = [f"call_{numbered + position}" for position in range(len(calls))]
        numbered += len(calls)
        messages.append(
            {
                "role": "assistant",
                "content": draw(st.none() | filled_texts),
                "tool_calls": [
                    {
                        "id": call_id,
                        "type": "function",
                        "function": {"name": tool, "arguments": ToolCall(tool, args).arguments},
                    }
                    for call_id, (tool, args) in zip(ids, calls, strict=True)
                ],
            }
        )
        messages += [{"role": "tool", "tool_call_id": call_id, "content": draw(filled_texts)} for call_id in ids]
    messages.append({"role": "user", "content": draw(filled_texts)})
    return tuple(messages)


@st.composite
def requests(draw):
    return Request(
        messages=draw(conversations()),
        model=draw(names),
        temperature=draw(st.none() | st.floats(0, 2)),
        max_tokens=draw(st.integers(1, 100_000)),
        tools=draw(tools()),
        stream=draw(st.booleans()),
    )
