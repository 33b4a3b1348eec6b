"""The messages that correct a model after a refused turn."""

from collections.abc import Iterable, Sequence

from offbook.messages import ToolCall


def retry(tools: Iterable[str]) -> str:
    """Return the nudge for an answer without a tool call."""
    return f"Your answer was not a valid tool call. Make a tool call to one of these tools: {_list(tools)}."


def unknown_tool(name: str, tools: Iterable[str]) -> str:
    return f"[UnknownTool] Tool '{name}' does not exist. Available tools: {_list(tools)}."


def invalid_arguments(call: ToolCall, problems: Sequence[str]) -> str:
    listed = "\n".join(f"- {problem}" for problem in problems)
    return f"[InvalidArguments] {call.tool} was not run. Call it again with these put right:\n{listed}"


def unreadable_arguments(call: ToolCall) -> str:
    return f"[InvalidArguments] {call.tool} was not run: its arguments must be a JSON object."


def premature(ending: str, pending: Sequence[str], *, attempt: int) -> str:
    """Return the nudge for an `ending` (`call submit`, `answer`) before the required steps, firmer each attempt."""
    steps = _list(pending)
    match attempt:
        case 1:
            sentence = f"You cannot {ending} yet. Call these tools first: {steps}."
        case 2:
            sentence = f"You still cannot {ending}. You must call one of these tools now: {steps}."
        case _:
            sentence = f"STOP. Do not {ending} again. Your next answer must be a call of one of: {steps}."
    return f"[StepEnforcementError] {sentence}"


def prerequisite(tool: str, missing: Sequence[str], *, attempt: int) -> str:
    """Return the nudge for a tool that was called before its prerequisites, firmer each attempt."""
    needed = _list(missing)
    match attempt:
        case 1:
            sentence = f"{tool} was not run: call {needed} before it."
        case 2:
            sentence = f"{tool} was not run again. You must call {needed} now, and {tool} only after that."
        case _:
            sentence = f"STOP. Do not call {tool} again before {needed} has succeeded."
    return f"[PrerequisiteError] {sentence}"


def repetition(tool: str, times: int) -> str:
    return (
        f"[RepeatedCall] {tool} was not run: you have called it {times} times with these very arguments, and the "
        f"outcome was the same every time. Change the arguments, call another tool, or finish."
    )


def not_run(refused: Iterable[str]) -> str:
    """Return the nudge for a valid call in a turn with refused calls."""
    return f"[NotRun] This call was not run, because {_list(refused)} was refused in the same turn. Call it again."


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
