"""Commands that are imported when they are called, so that `offbook --help` and small commands start quickly."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from offbook.cli.exit_codes import BAD_INPUT


class QuickParameters:
    """Mixin for typer's commands that keeps text and defaults from being converted.

    Typer converts every value with pydantic, which takes as long to import as typer itself. Most options are text.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if hasattr(parameter, "type_descriptor") and "process_value" not in vars(parameter):
                _convert_only_if_needed(parameter)
        return parameters


def _convert_only_if_needed(parameter: Any) -> None:
    convert, annotation = parameter.process_value, parameter.type_descriptor.annotation
    is_list = annotation == list[str]
    is_text = is_list or annotation is str

    def process_value(ctx: Any, value: Any) -> Any:
        is_default = value is None or value in ((), [], parameter.default)
        if not (is_default and not parameter.required) and not (is_text and value):
            return convert(ctx, value)
        value = () if value is None and is_list else value
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    parameter.process_value = process_value


class QuickCommand(QuickParameters, TyperCommand):
    """A command that imports pydantic only for values that need it."""


class LazyCommand(NamedTuple):
    """A command whose module is imported when it is called. `help` is the first line of the function's docstring."""

    module: str
    function: str
    help: str

    def load(self, name: str) -> Any:
        """Return the command with its options. Its module may have `SETTINGS` for `typer.Typer.command`."""
        module = import_module(f"offbook.cli.commands.{self.module}")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = {"cls": QuickCommand} | getattr(module, "SETTINGS", {})
        app.command(name, **settings)(getattr(module, self.function))
        return typer.main.get_command(app)


class LazyGroup(QuickParameters, TyperGroup):
    """A group that lists its commands from a table and imports only the one that is called.

    Its help is plain text: importing what typer draws panels with takes longer than everything else.
    """

    table: ClassVar[dict[str, LazyCommand]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        listed = {name: TyperCommand(name=name, help=command.help) for name, command in self.table.items()}
        self.commands = {**listed, **self.commands}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.table[name].load(name) if name in self.table else command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(TyperGroup, self).format_help(ctx, formatter)
