"""The results of a run and of its steps, and the checkpoint protocol that stores them."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from offbook.messages import JsonObject

StepStatus = Literal["done", "failed", "skipped"]
RunStatus = Literal["succeeded", "failed"]


class StepResult(Struct, frozen=True, kw_only=True):
    """The result of a step.

    `output` is text, a tool's result or a router's target. `calls` counts its model calls, `attempts` the requests
    to providers for them, including retries and fallbacks. `reasoning_tokens` are part of `completion_tokens`. `error`
    is the reason why it failed or was skipped.
    """

    id: str
    type: str
    status: StepStatus
    output: Any = None
    error: str | None = None
    error_type: str | None = None
    calls: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class WorkflowResult(Struct, frozen=True, kw_only=True):
    """The result of a run. `steps` has the result of each step, by id, in the order in which they ended.

    The ids of steps inside a loop or sub-workflow are like `loop[0].step` and `sub.step`.
    """

    workflow: str
    status: RunStatus
    state: JsonObject
    steps: dict[str, StepResult]
    latency_s: float = 0.0

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"

    @property
    def failures(self) -> list[StepResult]:
        """The steps that failed, in order."""
        return [step for step in self.steps.values() if step.status == "failed"]

    @property
    def cost_usd(self) -> float:
        return sum(step.cost_usd for step in self.steps.values())

    @property
    def total_tokens(self) -> int:
        return sum(step.total_tokens for step in self.steps.values())

    @property
    def reasoning_tokens(self) -> int:
        return sum(step.reasoning_tokens for step in self.steps.values())

    @property
    def attempts(self) -> int:
        return sum(step.attempts for step in self.steps.values())


class StepCheckpoint(Protocol):
    """Stores the results of steps by their path in the run (`loop[0].step`)."""

    def find(self, path: str) -> StepResult | None:
        """Return a step's result from an earlier part of this run, or None."""
        ...

    def save(self, path: str, result: StepResult) -> None:
        """Store a result durably."""
        ...


class NoCheckpoint:
    """Stores nothing."""

    def find(self, path: str) -> StepResult | None:
        return None

    def save(self, path: str, result: StepResult) -> None:
        return None


NO_CHECKPOINT = NoCheckpoint()
