"""The messages that correct a model after a refused turn."""

from collections.abc import Iterable, Sequence

from offbook.messages import ToolCall


def retry(tools: Iterable[str]) -> str:
    """For an answer that calls no tool."""
    return f"Your answer was not a valid tool call. Make a tool call to one of these tools: {_list(tools)}."


def unknown_tool(name: str, tools: Iterable[str]) -> str:
    return f"[UnknownTool] Tool '{name}' does not exist. Available tools: {_list(tools)}."


def invalid_arguments(call: ToolCall, problems: Sequence[str]) -> str:
    told = "\n".join(f"- {problem}" for problem in problems)
    return f"[InvalidArguments] {call.tool} was not run. Call it again with these put right:\n{told}"


def unreadable_arguments(call: ToolCall) -> str:
    return f"[InvalidArguments] {call.tool} was not run: its arguments must be a JSON object."


def premature(ending: str, pending: Sequence[str], *, attempt: int) -> str:
    """For a run that was to end before its required steps, by `call submit` or `answer`. Firmer with every attempt."""
    steps = _list(pending)
    match attempt:
        case 1:
            said = f"You cannot {ending} yet. Call these tools first: {steps}."
        case 2:
            said = f"You still cannot {ending}. You must call one of these tools now: {steps}."
        case _:
            said = f"STOP. Do not {ending} again. Your next answer must be a call of one of: {steps}."
    return f"[StepEnforcementError] {said}"


def prerequisite(tool: str, missing: Sequence[str], *, attempt: int) -> str:
    """For a tool that was called before what it needs. It gets firmer with every attempt."""
    needed = _list(missing)
    match attempt:
        case 1:
            said = f"{tool} was not run: call {needed} before it."
        case 2:
            said = f"{tool} was not run again. You must call {needed} now, and {tool} only after that."
        case _:
            said = f"STOP. Do not call {tool} again before {needed} has succeeded."
    return f"[PrerequisiteError] {said}"


def repetition(tool: str, times: int) -> str:
    return (
        f"[RepeatedCall] {tool} was not run: you have called it {times} times with these very arguments, and the "
        f"outcome was the same every time. Change the arguments, call another tool, or finish."
    )


def not_run(refused: Iterable[str]) -> str:
    """For a call that nothing is wrong with, made in one turn with some that were refused."""
    return f"[NotRun] This call was not run, because {_list(refused)} was refused in the same turn. Call it again."


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
