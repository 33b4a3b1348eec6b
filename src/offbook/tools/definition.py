"""A tool: what a model may call, and what runs when it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.spec import ToolSpec

ToolFunction: TypeAlias = Callable[..., Any]


class ToolDef(Struct, frozen=True, dict=True):
    """A tool as an agent holds it.

    Args:
        spec: what the model is told.
        callable: takes the arguments by name, as the model gave them; sync or async. What it returns
            goes to the model as text, what it raises is told to the model as an error.
        prerequisites: tools that must have run before: a name, or `{"tool": name, "match_arg": arg}`
            where that tool must have run with the same value of that argument.
        timeout_s: how long a call may take; a synchronous function is then run in a thread.
        side_effect: whether running it twice does harm, so that tests can count.
        repeatable: whether calling it again with the same arguments is fine however often, as when polling.

    Raises:
        InputError: `callable` cannot be called, or `timeout_s` is no time.
    """

    spec: ToolSpec
    callable: ToolFunction
    prerequisites: Sequence[str | Mapping[str, str]] = ()
    timeout_s: float | None = None
    side_effect: bool = False
    repeatable: bool = False

    def __post_init__(self) -> None:
        if not callable(self.callable):
            raise InputError(f"expected a function, got {self.callable!r}", source=self.name, place="callable")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise InputError(f"expected more than 0, got {self.timeout_s!r}", source=self.name, place="timeout_s")

    @property
    def name(self) -> str:
        return self.spec.name

    def bind(self, args: JsonObject) -> JsonObject:
        """The arguments that `callable` is called with, by name.

        Raises:
            ToolArgumentsError: they are not what the tool takes.
        """
        return self.spec.check(args)
