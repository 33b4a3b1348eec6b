"""How a command wants scenarios to be run."""

from __future__ import annotations

from msgspec import Struct

from offbook.errors import InputError
from offbook.session import Live, Record, Replay


class ScenarioOptions(Struct, frozen=True, kw_only=True):
    """Which scenarios are run, with whom and how, and what is shown of it. What is None is left to the config."""

    mode: Live | Record | Replay = Live()
    paths: tuple[str, ...] = ()
    config: str | None = None
    scenario: str | None = None
    agents: tuple[str, ...] = ()
    repeat: int | None = None
    concurrency: int | None = None
    reporters: tuple[str, ...] = ()
    is_json: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether scenarios or agents of the config may be left out."""
        return bool(self.paths or self.scenario or self.agents)


def mode_of(record: str | None, replay: str | None) -> Live | Record | Replay:
    """The mode that options ask for.

    Raises:
        InputError: both are given.
    """
    if record is not None and replay is not None:
        raise InputError("--record and --replay exclude each other", hint="leave one of them out")
    if replay is not None:
        return Replay(replay)
    return Live() if record is None else Record(record)
