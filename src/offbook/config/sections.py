"""The sections of a config that hold options of commands."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.settings import ExploreArguments

COMMAND_OPTIONS: tuple[type[Struct], ...] = (ExploreArguments,)
"""The options of the commands that a config can set."""
