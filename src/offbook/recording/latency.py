"""The delay of replayed calls."""

from __future__ import annotations

from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Literal, get_args

from offbook.clock import Clock
from offbook.errors import InputError

if TYPE_CHECKING:
    from random import Random

LatencyModel = Literal["constant", "normal", "replay"]
SIGMA = 0.1


class Latency:
    """The delay of replayed calls.

    Args:
        model: `constant` is `latency_ms` for each call. `normal` draws from a normal distribution around
            `latency_ms`, with a tenth of it as standard deviation. `replay` is the recorded latency.
        seed: the random seed.

    Raises:
        InputError: the model is unknown, or the latency is not a finite number of at least zero.
    """

    def __init__(self, model: LatencyModel, *, latency_ms: float, seed: int) -> None:
        if model not in get_args(LatencyModel):
            known = ", ".join(get_args(LatencyModel))
            raise InputError(f"unknown latency model {model!r}", source="latency_model", hint=f"one of: {known}")
        if latency_ms < 0 or not isfinite(latency_ms):
            raise InputError(f"expected zero or more, got {latency_ms!r}", source="latency_ms")
        self._model, self._latency_ms = model, latency_ms
        self._seed = seed
        self.is_none = model == "constant" and not latency_ms
        self.is_recorded = model == "replay"
        self.is_drawn = model == "normal"

    def delay_ms(self, recorded_ms: float) -> float:
        """Return the delay of a call whose recorded latency is `recorded_ms`."""
        match self._model:
            case "constant":
                return self._latency_ms
            case "normal":
                return max(0.0, self._random.gauss(self._latency_ms, self._latency_ms * SIGMA))
            case "replay":
                return recorded_ms

    def rewind(self) -> None:
        """Draw the same delays again."""
        vars(self).pop("_random", None)

    @cached_property
    def _random(self) -> Random:
        from random import Random  # noqa: PLC0415 - few replays draw

        return Random(self._seed)  # noqa: S311 - jitter, not a secret

    async def wait(self, clock: Clock, recorded_ms: float) -> None:
        """Wait for the delay of a call whose recorded latency is `recorded_ms`."""
        if not self.is_none:
            await clock.sleep_s(self.delay_ms(recorded_ms) / 1000.0)


NO_LATENCY = Latency("constant", latency_ms=0.0, seed=0)
"""No call takes any time."""
