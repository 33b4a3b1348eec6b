"""One answer of a model, and the verdict of the guards on it."""

from __future__ import annotations

from msgspec import Struct

from offbook.agent.guards import nudges
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo
from offbook.errors import AgentError
from offbook.messages import JsonObject, ToolCall
from offbook.messages import Message as WireMessage


class Turn(Struct, frozen=True, gc=False):
    """What a model answered: the calls it wants made, each with an id of its own, and what it said beside them."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    reasoning: str = ""


class Objection(Struct, frozen=True):
    """What is wrong with a turn.

    `told` is what to tell the model, by the position of the call concerned; of a turn without calls,
    position 0 is the turn itself. `error` is set when the guard gives up.
    """

    type: MessageType
    told: dict[int, str]
    error: AgentError | None = None


class TurnVerdict(Struct, frozen=True, gc=False):
    """What is to be done with a turn: make all its calls, or none."""

    turn: Turn
    objection: Objection | None = None
    error: AgentError | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls to make now; none if the turn was refused."""
        return self.turn.calls if self.objection is None else ()

    @property
    def answer(self) -> str | None:
        """The text that ends the conversation, where text may; None if it goes on."""
        return self.turn.text if self.objection is None and not self.turn.calls else None

    @property
    def messages(self) -> list[JsonObject]:
        """What to put behind the conversation now, in the OpenAI chat shape: the turn, and what was refused of it."""
        turn = self.turn
        said = [] if _is_empty(turn) else [WireMessage("assistant", turn.text or None, tool_calls=turn.calls).to_dict()]
        return said + [message.to_dict() for message in self._refusals(None)]

    def said(self, step_index: int) -> list[Message]:
        """The same as a transcript keeps it, with the reasoning as a message of its own."""
        turn = self.turn
        messages = []
        if turn.reasoning:
            thought = MessageMeta(MessageType.REASONING, step_index)
            messages.append(Message(MessageRole.ASSISTANT, turn.reasoning, thought))
        if not _is_empty(turn):
            kind = MessageType.TOOL_CALL if turn.calls else MessageType.TEXT_RESPONSE
            calls = tuple([ToolCallInfo.of(call) for call in turn.calls])
            messages.append(Message(MessageRole.ASSISTANT, turn.text, MessageMeta(kind, step_index), calls))
        if self.objection is not None:
            messages += self._refusals(step_index)
        return messages

    def _refusals(self, step_index: int | None) -> list[Message]:
        """One message for each call, or one for the text, if the turn was refused."""
        objection = self.objection
        if objection is None:
            return []
        meta = MessageMeta(objection.type, step_index)
        if not self.turn.calls:
            return [Message(MessageRole.USER, objection.told[0], meta)]
        rest = MessageMeta(MessageType.TOOL_RESULT, step_index)
        refused = nudges.not_run(sorted({self.turn.calls[position].tool for position in objection.told}))
        return [
            Message(
                MessageRole.TOOL,
                objection.told.get(position, refused),
                meta if position in objection.told else rest,
                tool_name=call.tool,
                tool_call_id=call.id,
            )
            for position, call in enumerate(self.turn.calls)
        ]


def _is_empty(turn: Turn) -> bool:
    """Whether a turn says nothing at all; providers refuse empty messages."""
    return not turn.calls and not turn.text.strip()
