"""The reference pages of the site, written from the code: commands, config, faults, refusals, events, the Python API.

Those of the commands and the refusals are also in docs/, for those who read them there: `python -m docs_site.reference`
renews them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, is_typeddict

import msgspec
import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import offbook
from offbook import events
from offbook.cli.app import LazyGroup, app
from offbook.codecs.rules import PROTOCOLS, rules_of
from offbook.codecs.rules.rule import Rule
from offbook.config import file as config_file
from offbook.config.sections import COMMAND_OPTIONS
from offbook.faults import catalog
from offbook.lazy_names import PUBLIC_MODULES, public_names
from offbook.settings import Setting, ToolSettings, current_values, settings_of

DOCS = Path(__file__).parents[1] / "docs"
COMMITTED = [DOCS / "reference" / name for name in ("commands.md", "refusals.md")]
_EXPLAINED = {
    "offbook demo": "start/openai",
    "offbook init": "start/openai",
    "offbook settings": "config",
    "offbook exec": "wire/exec",
    "offbook explore": "explore",
    "offbook tools": "wire/exec",
    "offbook serve": "wire/serve",
    "offbook mcp": "mcp",
    "offbook mcp mock": "mcp/mock",
    "offbook mcp verify": "mcp/checks",
    "offbook mcp check": "mcp/checks",
    "offbook mcp diff": "mcp/checks",
    "offbook test": "scenarios",
    "offbook prompts": "simulated-users",
    "offbook view": "viewer",
    "offbook recording": "recording/commands",
    "offbook recording verify": "live",
    "offbook recording approve": "live",
    "offbook recording import": "recording/convert",
    "offbook recording export": "recording/convert",
    "offbook merge": "reports/shards",
    "offbook mcp-server": "integrations",
    "offbook resume": "runs",
    "offbook runs": "runs",
}
"""The page that explains a command, or all commands of a group."""

_PROTOCOL_TITLES = {
    "openai_chat": "OpenAI chat completions",
    "openai_responses": "OpenAI responses",
    "anthropic": "Anthropic messages",
    "gemini": "Gemini",
    "bedrock": "Bedrock Converse",
}

_WITHOUT_DEFAULT: tuple[object, ...] = (None, False, "", (), [], PydanticUndefined, msgspec.NODEFAULT)


def pages() -> dict[str, str]:
    """Return the text of each page by its path in the folder of the reference."""
    writers = {
        "commands.md": _commands,
        "config.md": _config,
        "faults.md": _faults,
        "refusals.md": _refusals,
        "events.md": _events,
    }
    written = {name: "\n".join(lines()) + "\n" for name, lines in writers.items()}
    modules = {module.removeprefix("offbook."): "\n".join(_python(module)) + "\n" for module in PUBLIC_MODULES}
    top_level = {"offbook": "\n".join(_top_level()) + "\n"}
    return written | {f"python/{name}.md": text for name, text in (top_level | modules).items()}


def _commands() -> Iterator[str]:
    yield "# Commands\n\nEvery command with its options. [Command line](../command-line.md) lists them by purpose."
    group = typer.main.get_command(app)
    for title, names in group.sections.items():  # type: ignore[attr-defined]
        yield f"\n## {title}"
        for name in names:
            yield from _command(group, name, path="offbook")


def _command(group: Any, name: str, *, path: str) -> Iterator[str]:
    """Yield a command, or each command of a group."""
    listed = group.commands[name]
    if isinstance(listed, LazyGroup):
        for inner in listed.table:
            yield from _command(listed, inner, path=f"{path} {name}")
        return
    command = group.table[name].load(name)
    context = command.make_context(f"{path} {name}", [], resilient_parsing=True)
    yield f"\n### {path} {name}\n\n{_prose(command.help)}\n\nSee {_explained(path, name)}.\n"
    rows = [_option(each, context) for each in command.get_params(context) if each.name != "help"]
    for panel in dict.fromkeys(panel for panel, _, _ in rows):
        yield from _table((panel, "meaning"), [row[1:] for row in rows if row[0] == panel])


def _explained(path: str, name: str) -> str:
    """Return the link to the page that explains a command."""
    page = _EXPLAINED.get(f"{path} {name}") or _EXPLAINED.get(path, "workflows/commands")
    title = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}](../{page}.md)"


def _option(parameter: Any, context: Any) -> tuple[str, str, str]:
    """Return the panel, the name and the meaning of a parameter."""
    if parameter.param_type_name == "argument":
        return "argument", f"`{parameter.name.upper()}`", parameter.help or ""
    value = parameter.display_type_rich(context) or ""
    names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    default = f" Default: `{parameter.default}`." if parameter.default not in _WITHOUT_DEFAULT else ""
    return (
        parameter.rich_help_panel or "option",
        f"{names} {_code(value)}".strip(),
        f"{parameter.help or ''}{default}",
    )


def _config() -> Iterator[str]:
    yield "# Config\n\nThe sections of `offbook.toml` and their keys. [Config](../config.md) explains them."
    sections: dict[str, type[BaseModel]] = {
        '[agents.NAME] with "handler"': config_file.HandlerConfig,
        '[agents.NAME] with "endpoint"': config_file.EndpointConfig,
        '[agents.NAME] with "workflow"': config_file.WorkflowConfig,
        '[agents.NAME] with "runner"': config_file.RunnerConfig,
        "[user]": config_file.UserConfig,
        "[judge]": config_file.JudgeConfig,
        "[run]": config_file.RunConfig,
    }
    for title, model in sections.items():
        yield f"\n## {title}\n\n{_prose(inspect.getdoc(model))}\n"
        yield from _table(("key", "type", "default"), _model_rows(model))
    options = [each.setting for each in current_values(COMMAND_OPTIONS, None)]
    for section in dict.fromkeys(setting.section for setting in options):
        yield f"\n## [{section}]\n"
        yield from _table(
            ("key", "type", "default", "meaning"), [_setting(each) for each in options if each.section == section]
        )
    yield f"\n## [tools.NAME]\n\n{_prose(inspect.getdoc(ToolSettings))}\n"
    yield from _table(("key", "type", "default", "meaning"), [*map(_setting, settings_of(ToolSettings).values())])


def _setting(setting: Setting) -> tuple[str, ...]:
    return f"`{setting.key}`", setting.type_name, _default(setting.default), setting.option.help


def _model_rows(model: type[BaseModel]) -> list[tuple[str, ...]]:
    schema = model.model_json_schema(mode="validation")
    return [
        (
            f"`{name}`",
            _code(_json_type(schema["properties"][name])),
            _default(field.get_default(call_default_factory=True)),
        )
        for name, field in model.model_fields.items()
    ]


def _json_type(schema: Mapping[str, Any]) -> str:
    """Return the type that a JSON schema describes, as one word or a few."""
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_json_type(each) for each in schema["anyOf"] if each.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {_json_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _faults() -> Iterator[str]:
    yield "# Faults\n\nEvery fault with its fields. [Faults](../faults.md) explains where they fire."
    families = {
        "Models": catalog.FAULT_TYPES,
        "Tools": catalog.TOOL_FAULT_TYPES,
        "Order": catalog.ORDER_FAULT_TYPES,
        "Process": catalog.PROCESS_FAULT_TYPES,
    }
    for title, faults in families.items():
        yield f"\n## {title}"
        for name, fault in faults.items():  # type: ignore[attr-defined]
            yield f"\n### {name}\n\n{_prose(inspect.getdoc(fault))}\n"
            yield from _table(("field", "type", "default"), _struct_rows(fault))


def _refusals() -> Iterator[str]:
    yield "# What the APIs refuse\n\nThe rules by which requests are refused, the first that is broken first, each"
    yield "with where it is documented or quoted, and when. [Refusals](../explore/refusals.md) explains them."
    for protocol in PROTOCOLS:
        rules = rules_of(protocol) or ()
        yield f"\n## {_PROTOCOL_TITLES[protocol]}\n"
        yield from _table(("rule", "refused is a request in which", "source", "seen"), [*map(_rule_row, rules)])


def _rule_row(rule: Rule) -> tuple[str, ...]:
    sources = re.sub(r"https://[^\s,]+", r"<\g<0>>", rule.source)
    note = "; judged only where all answers are real" if rule.is_about_answers else ""
    return _code(rule.name), f"{rule.refuses}{note}", sources, rule.seen


def _events() -> Iterator[str]:
    yield "# Events\n\nWhat a sink receives. [Events](../events.md) shows how."
    for name, event in vars(events).items():
        if inspect.isclass(event) and issubclass(event, msgspec.Struct) and event.__module__ == events.__name__:
            yield f"\n## {name}\n\n{_prose(inspect.getdoc(event))}\n"
            yield from _table(("field", "type", "default"), _struct_rows(event))


def _struct_rows(struct: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    return [
        (f"`{written}`", _code(_annotation(struct, name)), _default(default))
        for name, written, default in _fields(struct)
    ]


def _fields(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str, object]]:
    """Yield the name, the name in JSON and the default of each field. Annotations are not evaluated."""
    names, defaults = struct.__struct_fields__, struct.__struct_defaults__
    required = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    for name, written, default in zip(names, struct.__struct_encode_fields__, (*required, *defaults), strict=True):
        yield name, written, default.factory() if hasattr(default, "factory") else default


def _annotation(owner: type, name: str) -> str:
    """Return the type of a field as it is written in the code."""
    for base in owner.__mro__:
        if name in vars(base).get("__annotations__", {}):
            return _type_name(vars(base)["__annotations__"][name])
    return ""


def _type_name(annotation: object) -> str:
    """Return a type without its modules and its limits."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)
    return re.sub(r"Annotated\[([^,\[\]]+(?:\[[^\]]*\])?),.*\]", r"\1", text)


def _top_level() -> Iterator[str]:
    """Yield the page of the names that `offbook` itself offers, with links to those of the modules."""
    yield "# offbook\n\nNames that `from offbook import …` offers. The other names are imported from their module.\n"
    homes = {name: home for home in reversed(PUBLIC_MODULES) for name in public_names(home)}
    rows: list[tuple[str, ...]] = []
    for name in dir(offbook):
        if name in homes:
            page = homes[name].removeprefix("offbook.")
            meaning = (inspect.getdoc(getattr(offbook, name)) or "").partition("\n\n")[0].replace("\n", " ")
            rows.append((f"[`{name}`]({page}.md#{name.lower()})", meaning))
    yield from _table(("name", "meaning"), rows)


def _python(module: str) -> Iterator[str]:
    """Yield the page of a public module."""
    yield f"# {module}\n\nNames that `from {module} import …` offers."
    for name in sorted(public_names(module)):
        value = getattr(import_module(module), name)
        yield f"\n## {name}\n"
        if inspect.isclass(value) or inspect.isroutine(value):
            yield f"{_signature(name, value)}{_prose(inspect.getdoc(value))}\n"
            yield from _table(("method", "meaning"), _methods(value))
        else:  # a constant or an alias of types
            yield f"{_code(', '.join(value) if isinstance(value, Mapping) else _type_name(value))}\n"


def _signature(name: str, value: Any) -> str:
    """Return the signature of a public name as a block of code, or nothing for an error."""
    if inspect.isclass(value) and issubclass(value, Exception):
        return ""
    parameters = "".join(f"    {each},\n" for each in _parameters(value))
    return f"```python\n{name}({chr(10) + parameters if parameters else ''})\n```\n\n"


def _parameters(value: Any) -> Iterator[str]:
    """Yield the parameters of a function or a class, with their types and defaults."""
    if inspect.isclass(value) and issubclass(value, msgspec.Struct):
        for name, _, default in _fields(value):
            yield f"{name}: {_annotation(value, name)}{_assigned(default)}"
        return
    if is_typeddict(value):
        for name, hint in value.__annotations__.items():
            yield f"{name}: {_type_name(getattr(hint, '__forward_arg__', hint))}"
        return
    for parameter in inspect.signature(value).parameters.values():
        default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        hint = "" if parameter.annotation is parameter.empty else f": {_type_name(parameter.annotation)}"
        name = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))  # with its stars
        yield f"{name}{hint}{_assigned(default)}"


def _assigned(default: object) -> str:
    """Return the default behind a parameter. One that is no plain value has no text that says more than its type."""
    if default is msgspec.NODEFAULT:
        return ""
    return f" = {default!r}" if isinstance(default, str | int | float | tuple | None) else " = …"


def _methods(value: Any) -> list[tuple[str, ...]]:
    """Return the public methods and properties that a class itself documents, with their first lines."""
    own = vars(value).items() if inspect.isclass(value) else ()
    return [
        (f"`{name}`", (inspect.getdoc(member) or "").partition("\n\n")[0].replace("\n", " "))
        for name, member in own
        if not name.startswith("_")
        and inspect.getdoc(member)
        and (callable(member) or isinstance(member, property | classmethod | staticmethod))
    ]


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, or none without a row."""
    if not rows:
        return
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _default(value: object) -> str:
    if value in (PydanticUndefined, msgspec.NODEFAULT):
        return "required"
    return "" if value in (None, (), [], {}, "", msgspec.UNSET) else _code(str(value))


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _prose(docstring: str | None) -> str:
    """Return a docstring as Markdown: lines that are indented are code, and Rich's markup is gone."""
    text = re.sub(r"\[/?bold\]", "**", inspect.cleandoc(docstring or ""))
    indented = re.sub(r"(?m)^  +(?=\S)", "    ", re.sub(r"(?m)^([^\s].*)\n(?=  +\S)", r"\1\n\n", text))
    return re.sub(r"(?m)^(    .*)\n\n(?=    )", r"\1\n", indented)


if __name__ == "__main__":
    for page in COMMITTED:
        page.write_text(pages()[page.name], encoding="utf-8")
