"""What a workflow file says of the models it talks to."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, Strict

from offbook.gateway.retry import RETRYABLE_STATUSES, RetryPolicy

T = TypeVar("T")
Listed: TypeAlias = Annotated[tuple[T, ...], Strict(False)]
ProviderName = Literal["openai", "openai_responses", "anthropic", "google", "ollama", "mock"]
Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0)]
Temperature = Annotated[float, Field(ge=0, le=2)]


class Definition(BaseModel):
    """A part of a workflow file: unknown fields are refused, nothing is converted, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RetryDefinition(Definition):
    """When a failed call is tried again, in the words of `RetryPolicy`."""

    max_retries: Annotated[int, Field(ge=0)] = RetryPolicy().max_retries
    backoff_s: NonNegativeFloat = RetryPolicy().backoff_s
    multiplier: NonNegativeFloat = RetryPolicy().multiplier
    max_backoff_s: NonNegativeFloat = RetryPolicy().max_backoff_s
    jitter: Annotated[float, Field(ge=0, le=1)] = RetryPolicy().jitter
    seed: int = RetryPolicy().seed
    max_retry_after_s: NonNegativeFloat = RetryPolicy().max_retry_after_s
    statuses: Listed[int] = tuple(sorted(RETRYABLE_STATUSES))

    def policy(self) -> RetryPolicy:
        """The same as a policy for the gateway."""
        return RetryPolicy(**(self.model_dump() | {"statuses": frozenset(self.statuses)}))


class FallbackDefinition(Definition):
    """A model to ask when the one before it does not answer."""

    provider: ProviderName
    model: Name
    base_url: Name | None = None


class ConfigDefinition(Definition):
    """How models are asked, and how much a run may take. What is not told is left to whoever runs the workflow."""

    provider: ProviderName | None = None
    model: Name | None = None
    base_url: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None
    budget_usd: NonNegativeFloat | None = None
    max_concurrent_steps: PositiveInt = 10
    timeout_s: Seconds | None = None
    responses_file: Name | None = None
    latency_model: Literal["constant", "normal", "replay"] = "constant"
    latency_ms: NonNegativeFloat = 0.0
    strict: bool = False
    fallbacks: Listed[FallbackDefinition] = ()
    retry: RetryDefinition | None = None
    restart_streams: bool = False

    def inside(self, outer: ConfigDefinition) -> ConfigDefinition:
        """This config with what `outer` says where it says nothing. An address goes with its own provider alone."""
        told = {name: getattr(self, name) for name in self.model_fields_set}
        if self.provider not in (None, outer.provider):
            told.setdefault("base_url", None)
        return outer.model_copy(update=told)
