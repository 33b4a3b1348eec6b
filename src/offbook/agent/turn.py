"""One answer of a model, and the verdict of the guards on it."""

from __future__ import annotations

from msgspec import Struct

from offbook.agent.guards import nudges
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo
from offbook.errors import AgentError
from offbook.messages import JsonObject, ToolCall
from offbook.messages import Message as WireMessage


class Turn(Struct, frozen=True, gc=False):
    """A model's answer: the tool calls, each with a unique id, the text and the reasoning."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    reasoning: str = ""


class Objection(Struct, frozen=True):
    """Why a guard refuses a turn.

    `nudges_by_position` has the message to the model for each refused call, by the call's position; position 0
    stands for the turn itself if it has no calls. `error` is set when the guard gives up.
    """

    type: MessageType
    nudges_by_position: dict[int, str]
    error: AgentError | None = None


class TurnVerdict(Struct, frozen=True, gc=False):
    """The decision on a turn: all of its calls are run, or none."""

    turn: Turn
    objection: Objection | None = None
    error: AgentError | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls to run now; empty if the turn was refused."""
        return self.turn.calls if self.objection is None else ()

    @property
    def answer(self) -> str | None:
        """The text that ends the run, if there is no terminal tool; None if the run continues."""
        return self.turn.text if self.objection is None and not self.turn.calls else None

    @property
    def messages(self) -> list[JsonObject]:
        """The messages to append to the conversation, in the OpenAI chat format: the turn and the refusals."""
        turn = self.turn
        answer = WireMessage("assistant", turn.text or None, tool_calls=turn.calls)
        own = [] if _is_empty(turn) else [answer.to_dict()]
        return own + [message.to_dict() for message in self._refusals(None)]

    def to_messages(self, step_index: int) -> list[Message]:
        """Return the turn and the refusals as messages of a transcript; the reasoning is a message of its own."""
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
        """Return one message for each call of a refused turn, or one for its text."""
        objection = self.objection
        if objection is None:
            return []
        meta = MessageMeta(objection.type, step_index)
        if not self.turn.calls:
            return [Message(MessageRole.USER, objection.nudges_by_position[0], meta)]
        rest = MessageMeta(MessageType.TOOL_RESULT, step_index)
        by_position = objection.nudges_by_position
        not_run = nudges.not_run(sorted({self.turn.calls[position].tool for position in by_position}))
        return [
            Message(
                MessageRole.TOOL,
                by_position.get(position, not_run),
                meta if position in by_position else rest,
                tool_name=call.tool,
                tool_call_id=call.id,
            )
            for position, call in enumerate(self.turn.calls)
        ]


def _is_empty(turn: Turn) -> bool:
    """Whether a turn has neither calls nor text; providers refuse empty messages."""
    return not turn.calls and not turn.text.strip()
