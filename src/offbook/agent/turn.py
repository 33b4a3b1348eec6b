"""One answer of a model, the verdict of the guards on it, and the nudges that correct the model after a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo
from offbook.errors import AgentError
from offbook.messages import JsonObject, ToolCall
from offbook.messages import Message as WireMessage


class ModelTurn(Struct, frozen=True, gc=False):
    """A model's answer: the tool calls, each with a unique id, the text and the reasoning."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    reasoning: str = ""


class Objection(Struct, frozen=True):
    """A guard's reason for refusing a turn.

    `nudges_by_position` has the message to the model for each refused call, by the call's position; position 0 stands
    for the turn itself if it has no calls. `error` is set when the guard gives up.
    """

    type: MessageType
    nudges_by_position: dict[int, str]
    error: AgentError | None = None


class TurnVerdict(Struct, frozen=True, gc=False):
    """The decision on a turn: all of its calls are run, or none."""

    turn: ModelTurn
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
        """Return the turn and the refusals as messages of a transcript; the reasoning is a separate message."""
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
        not_run = not_run_nudge(sorted({self.turn.calls[position].tool for position in by_position}))
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


def _is_empty(turn: ModelTurn) -> bool:
    """Whether a turn has neither calls nor text; providers refuse empty messages."""
    return not turn.calls and not turn.text.strip()


def no_call_nudge(tools: Iterable[str]) -> str:
    """Return the nudge for an answer without a tool call."""
    return f"Your answer was not a valid tool call. Make a tool call to one of these tools: {_listed(tools)}."


def unknown_tool_nudge(name: str, tools: Iterable[str]) -> str:
    return f"[UnknownTool] Tool '{name}' does not exist. Available tools: {_listed(tools)}."


def invalid_arguments_nudge(call: ToolCall, problems: Sequence[str]) -> str:
    listed = "\n".join(f"- {problem}" for problem in problems)
    return f"[InvalidArguments] {call.tool} was not run. Call it again with these put right:\n{listed}"


def unreadable_arguments_nudge(call: ToolCall) -> str:
    return f"[InvalidArguments] {call.tool} was not run: its arguments must be a JSON object."


def premature_nudge(ending: str, pending: Sequence[str], *, attempt: int) -> str:
    """Return the nudge for an `ending` (`call submit`, `answer`) before the required steps, firmer each attempt."""
    steps = _listed(pending)
    match attempt:
        case 1:
            sentence = f"You cannot {ending} yet. Call these tools first: {steps}."
        case 2:
            sentence = f"You still cannot {ending}. You must call one of these tools now: {steps}."
        case _:
            sentence = f"STOP. Do not {ending} again. Your next answer must be a call of one of: {steps}."
    return f"[StepEnforcementError] {sentence}"


def prerequisite_nudge(tool: str, missing: Sequence[str], *, attempt: int) -> str:
    """Return the nudge for a tool that was called before its prerequisites, firmer each attempt."""
    needed = _listed(missing)
    match attempt:
        case 1:
            sentence = f"{tool} was not run: call {needed} before it."
        case 2:
            sentence = f"{tool} was not run again. You must call {needed} now, and {tool} only after that."
        case _:
            sentence = f"STOP. Do not call {tool} again before {needed} has succeeded."
    return f"[PrerequisiteError] {sentence}"


def repetition_nudge(tool: str, times: int) -> str:
    return (
        f"[RepeatedCall] {tool} was not run: you have called it {times} times with these very arguments, and the "
        f"outcome was the same every time. Change the arguments, call another tool, or finish."
    )


def not_run_nudge(refused: Iterable[str]) -> str:
    """Return the nudge for a valid call in a turn with refused calls."""
    return f"[NotRun] This call was not run, because {_listed(refused)} was refused in the same turn. Call it again."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
