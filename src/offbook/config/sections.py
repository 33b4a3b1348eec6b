"""The sections of a config that hold options of commands."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.settings import ExploreArguments
from offbook.wire.settings import ExecArguments, ServeArguments

COMMAND_OPTIONS: tuple[type[Struct], ...] = (ExploreArguments, ExecArguments, ServeArguments)
"""The options of the commands that a config can set."""
