"""Makes the flags of a command from the options that a struct declares, and the values from what is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal, get_origin

import typer
from msgspec import Struct

from offbook.errors import InputError
from offbook.settings import Setting, find_project, load_project, resolve, settings_of

_ASSIGNMENTS = "assignments"


def with_options(kind: type[Struct]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a struct, in the place of its first two parameters, which get their values.

    The first gets them all, the second those without the config: checks of options that exclude each other are for
    what is given, as the config holds for more than one run.
    """
    panels: Sequence[str] = getattr(kind, "panels", ("",))
    listed = sorted(settings_of(kind).items(), key=lambda item: panels.index(item[1].option.panel or panels[0]))
    shared = {name: _parameter(setting) for name, setting in listed if setting.flags}
    info = typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="Set an option of offbook.toml for this run; offbook settings lists them. Repeatable.",
        autocompletion=lambda: [f"{setting.key}=" for setting in settings_of(kind).values() if setting.is_assigned],
    )
    assignments = Parameter(_ASSIGNMENTS, Parameter.KEYWORD_ONLY, default=[], annotation=Annotated[list[str], info])

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, _, *own = signature(command, eval_str=True).parameters.values()

        def run(**values: Any) -> None:
            texts = values.pop(_ASSIGNMENTS)
            given = {name: value for name in shared if (value := values.pop(name)) is not None and value is not False}
            given = {name: value for name, value in given.items() if value not in ([], ())}
            for name, setting in settings_of(kind).items():
                if setting.option.is_once and name in given:
                    first, *others = given[name]
                    if others:
                        hint = f"keep one of: {', '.join(given[name])}"
                        raise InputError(f"{setting.flags[0]} is given {len(given[name])} times", hint=hint)
                    given[name] = first
            alone = resolve(kind, given, texts, project=None, others=_of_all_commands)
            config = getattr(alone, "config", None)
            project = find_project() if config is None else load_project(config)
            if config is not None and project is not None:
                from offbook.config.sections import check_project

                check_project(project)
            command(resolve(kind, given, texts, project=project), alone, **values)

        run.__doc__, run.options_kind = command.__doc__, kind  # type: ignore[attr-defined]
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared.values(), assignments)]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _of_all_commands() -> Sequence[type[Struct]]:
    from offbook.config.sections import COMMAND_OPTIONS  # no command needs those of others, except for an error

    return COMMAND_OPTIONS


def _parameter(setting: Setting) -> Parameter:
    """Return an option as typer declares it. Its default says that it was not given."""
    is_flag, limits = setting.type is bool, setting.limits
    kind = setting.type if setting.type in (bool, int, float) or get_origin(setting.type) is Literal else str
    is_repeatable = setting.is_list or setting.option.is_once
    annotation = list[str] if is_repeatable else kind if is_flag else kind | None
    info = typer.Option(
        *setting.flags,
        help=setting.option.help,
        metavar=setting.option.metavar or None,
        min=limits.ge,
        max=limits.le,
        envvar=setting.option.variable or None,
        show_default=False,
        rich_help_panel=setting.option.panel or None,
    )
    default: Any = [] if is_repeatable else False if is_flag else None
    return Parameter(setting.field, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info])
