"""The errors that end an agent's run, as one tree.

AgentError
├── MaxIterationsError      the limit of iterations is reached: iterations, pending_steps
├── ToolCallError           the model does not make a valid tool call: raw_response
├── StepEnforcementError    a terminal tool was called before required steps: terminal_tool, attempts, pending_steps
├── PrerequisiteError       a tool was called before its prerequisites: tool_name, attempts, missing
├── RepeatedCallError       the model made the same call over and over: tool_name, arguments, times
├── ToolExecutionError      tools failed too often in a row: tool_name, cause
├── AgentBudgetError        the run has spent its budget: spent, limit, unit
├── StreamError             a client's stream ended without its FINAL chunk
└── WorkflowCancelledError  the run was cancelled: iteration
"""

from collections.abc import Mapping, Sequence

from offbook.errors import AgentError


class MaxIterationsError(AgentError):
    """The run reached its limit of iterations."""

    def __init__(self, iterations: int, *, pending_steps: Sequence[str] = ()) -> None:
        self.iterations, self.pending_steps = iterations, list(pending_steps)
        missing = f"; required steps not done: {', '.join(pending_steps)}" if pending_steps else ""
        super().__init__(f"no terminal tool was called within {iterations} iterations{missing}")


class ToolCallError(AgentError):
    """The model does not make a valid tool call. `raw_response` is its last answer."""

    def __init__(self, reason: str, *, raw_response: str) -> None:
        self.raw_response = raw_response
        super().__init__(f"Retries exhausted: {reason}")


class StepEnforcementError(AgentError):
    """The model called a terminal tool before its required steps, once too often."""

    def __init__(self, terminal_tool: str, *, attempts: int, pending_steps: Sequence[str]) -> None:
        self.terminal_tool, self.attempts, self.pending_steps = terminal_tool, attempts, list(pending_steps)
        super().__init__(f"{terminal_tool} was called {attempts} times before {', '.join(pending_steps)}")


class PrerequisiteError(AgentError):
    """The model called a tool before its prerequisites, once too often."""

    def __init__(self, tool_name: str, *, attempts: int, missing: Sequence[str]) -> None:
        self.tool_name, self.attempts, self.missing = tool_name, attempts, list(missing)
        super().__init__(f"{tool_name} was called {attempts} times before {', '.join(missing)}")


class RepeatedCallError(AgentError):
    """The model made the same call, with the same outcome, once too often."""

    def __init__(self, tool_name: str, *, arguments: Mapping[str, object], times: int) -> None:
        self.tool_name, self.arguments, self.times = tool_name, dict(arguments), times
        super().__init__(f"{tool_name} was called {times} times with the same arguments and the same outcome")


class ToolExecutionError(AgentError):
    """Tools failed in too many turns in a row. `cause` is what the last one raised."""

    def __init__(self, tool_name: str, cause: Exception) -> None:
        self.tool_name, self.cause = tool_name, cause
        super().__init__(f"{tool_name} failed: {type(cause).__name__}: {cause}")


class AgentBudgetError(AgentError):
    """The run has spent its budget. `unit` is `USD` or `tokens`."""

    def __init__(self, *, spent: float, limit: float, unit: str) -> None:
        self.spent, self.limit, self.unit = spent, limit, unit
        super().__init__(f"the run's budget of {limit:g} {unit} is spent ({spent:g} so far)")


class StreamError(AgentError):
    """A client's stream ended without its FINAL chunk."""


class WorkflowCancelledError(AgentError):
    """The run was cancelled, before `iteration` or during its model call."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        super().__init__(f"the run was cancelled at iteration {iteration}")
