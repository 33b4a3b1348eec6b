"""What is asked and answered in every measurement: a support conversation, another one for each index."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from offbook.messages import JsonObject, Request, Response, Usage

MODEL = "gpt-4o-mini"
TEMPERATURE = 0.2
MAX_TOKENS = 1024
COST_USD = 0.00042
LATENCY_MS = 812.5
USAGE = Usage.of(512, 128)

Conversation = Literal["chat", "long", "tools"]
By = Literal["step", "fingerprint", "loop"]
"""How a call is found: by a step of its own, without a step by what is asked, or as one of many calls of one step."""

_SYSTEM = """You are the support assistant of a mail-order shop for bicycle parts. Answer in the language of the \
customer, in at most six sentences, and never promise a date that the order system has not confirmed. Orders have nine \
digits; returns are free for thirty days if the part was not mounted. Batteries, tubeless sealant and custom-cut \
cables cannot be sent back. If the customer is angry, say once that you are sorry and then solve the problem. If you \
do not know, say so and offer to hand over to a colleague; do not guess a price, a torque or a compatibility. Quote \
article numbers as they are written in the catalogue, with their dashes. Never ask for a password or a full card \
number. When the customer wants to cancel, check first whether the parcel has left the warehouse; afterwards a return \
is the only way. Close with the next step, and who takes it."""
_ASKED = """Hello, I ordered a rear derailleur and a twelve-speed chain two weeks ago and only the chain has come. The \
page says that the order is complete. I need the bicycle for a tour at the end of the month, so please tell me whether \
the derailleur is on its way, or whether I should buy one in town and send yours back when it arrives."""
_ANSWERED = """I am sorry that half of your order is missing. The order system shows two parcels: the chain was \
delivered on Tuesday, the derailleur left the warehouse a day later and was last scanned at the sorting centre in \
Kassel. It is not lost, but it is late. If it has not come by Friday I can send a second one by express."""
_FURTHER = "Thank you. Before I decide: the article is RD-{index:06d}-GS. Does it fit a cassette with 10 to 52 teeth?"
_ANSWER = """\
The derailleur RD-{index:06d}-GS is made for cassettes with a largest cog of 45 to 52 teeth, so yours fits. \
The cage is the long one, and the chain that you have received is the right one for it. Should the parcel not arrive \
by Friday, write to us again with the number of your order: I have noted that a second derailleur may go out by \
express, free of charge. The next step is ours; we look at the tracking every morning and tell you when it moves."""


_EARLIER: list[JsonObject] = [
    {"role": role, "content": text} for _ in range(3) for role, text in (("user", _ASKED), ("assistant", _ANSWERED))
]


class Call(Struct, frozen=True):
    """One call: what is asked, under which step (None: under none), and what is answered."""

    messages: list[JsonObject]
    step_id: str | None
    answer: str


def call_at(index: int, conversation: Conversation = "chat", *, by: By = "step") -> Call:
    """The call of an index; no two indexes ask or answer the same."""
    step_ids = {"step": f"support-{index:06d}", "fingerprint": None, "loop": "support"}
    return Call(
        [
            {"role": "system", "content": _SYSTEM},
            *(_EARLIER if conversation == "long" else []),
            {"role": "user", "content": _ASKED},
            *(_looked_up(index) if conversation == "tools" else []),
            {"role": "assistant", "content": _ANSWERED},
            {"role": "user", "content": _FURTHER.format(index=index)},
        ],
        step_ids[by],
        _ANSWER.format(index=index),
    )


def _looked_up(index: int) -> list[JsonObject]:
    """A tool call and its result, as they stand in the middle of an agent's conversation."""
    call_id = f"call_{index:024x}"
    function = {"name": "find_order", "arguments": '{"customer":"c-1881","open":true}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": '{"order":"400318812","parcels":2,"delivered":1}'},
    ]


def request_of(call: Call) -> Request:
    """The call as our own value."""
    return Request(tuple(call.messages), MODEL, TEMPERATURE, MAX_TOKENS, step_id=call.step_id)


def fields_of(call: Call) -> JsonObject:
    """The call as the body that would be posted."""
    return {"model": MODEL, "messages": call.messages, "temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}


def response_of(call: Call) -> Response:
    """What a provider answers to the call."""
    return Response(content=call.answer, model=MODEL, provider="openai", usage=USAGE, cost_usd=COST_USD)
