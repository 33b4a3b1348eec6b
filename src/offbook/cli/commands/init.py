"""offbook init: writes a small working project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path


class ProjectKind(NamedTuple):
    """A kind of project: its description, the packages for its tests, the vendor's key, and the next command to run."""

    title: str
    packages: tuple[str, ...] = ()
    key: str = "OPENAI_API_KEY"
    next_steps: tuple[str, ...] = ("python -m pytest",)


KINDS = {
    "openai": ProjectKind("an agent on the OpenAI SDK", ("openai>=2",)),
    "anthropic": ProjectKind("an agent on the Anthropic SDK", ("anthropic>=0.70",), key="ANTHROPIC_API_KEY"),
    "langgraph": ProjectKind("an agent with LangGraph", ("langchain-openai>=1", "langgraph>=1", "openai>=2")),
    "pydantic-ai": ProjectKind("an agent with pydantic-ai", ("pydantic-ai-slim[openai]>=1",)),
    "node": ProjectKind("an agent in Node, on the OpenAI SDK", next_steps=("npm install", "npm test")),
    "scenario": ProjectKind("conversations with an agent", next_steps=("offbook test --replay recordings/",)),
    "yaml": ProjectKind(
        "a workflow in YAML",
        next_steps=("offbook replay flow.yaml --recording recordings/flow.json", "python -m pytest"),
    ),
}
DEFAULT_KIND = "openai"
OFFBOOK, PACKAGES, KEY = "<offbook>", "<packages>", "<key>"
"""Placeholders in templates: offbook's requirement, the kind's packages, and the variable of the key."""
_DOTTED = ("github", "gitignore")
_TEMPLATE = "-tpl"
"""The suffix of Python templates, which keeps tools from taking them for modules of this package."""
_PYTEST_SETTINGS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def init(
    folder: Annotated[str, typer.Argument(help="The folder of the project; created if missing.")] = "",
    sdk: Annotated[
        str | None, typer.Option("--sdk", metavar="KIND", help=f"The kind of project: {', '.join(KINDS)}.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Create a small project with an agent, a recording and tests.

    The project has an agent of the chosen kind, a recording, tests and a CI workflow. The tests pass at once. If a file
    exists, nothing is written and the exit code is 2, unless --force is given.

    [bold]Examples[/bold]

      offbook init my-agent

      offbook init my-agent --sdk anthropic

      offbook init . --sdk scenario
    """
    import shlex
    from pathlib import Path

    from offbook.errors import InputError
    from offbook.text import pluralize, printable

    if not folder:
        hint = "offbook init my-agent, or offbook init . for this folder"
        raise InputError("the folder of the project is missing", source="init", hint=hint)
    name = _kind(sdk)
    files = _files(name)
    if not _needs_settings(Path(folder).resolve(), KINDS[name]):
        del files["pytest.ini"]
    _check(Path(folder), files, force=force)
    _write(Path(folder), files, KINDS[name])
    typer.echo(printable(f"{folder}: wrote {KINDS[name].title}, {pluralize(len(files), 'file')}"))
    typer.echo("".join(f"  {file}\n" for file in files))
    typer.echo("What to do next:")
    if Path(folder) != Path():
        typer.echo(printable(f"  cd {shlex.quote(folder)}"))
    for step in ("python -m pip install -r requirements.txt", *KINDS[name].next_steps):
        typer.echo(f"  {step}")


def _kind(chosen: str | None) -> str:
    """Return the kind of project. Ask for it on a terminal if it is not given."""
    import sys

    from offbook.errors import InputError
    from offbook.text import suggestion

    if chosen is None and sys.stdin.isatty() and sys.stdout.isatty():
        typer.echo("".join(f"  {name:<12} {kind.title}\n" for name, kind in KINDS.items()))
        chosen = typer.prompt("Which kind of project", default=DEFAULT_KIND)
    name = DEFAULT_KIND if chosen is None else chosen
    if name not in KINDS:
        raise InputError(
            f"there is no kind of project {name!r}", source="--sdk", hint=suggestion(name, KINDS, kind="kinds")
        )
    return name


def _files(kind: str) -> dict[str, Traversable]:
    """Return the templates of a project by file name. Those of its kind replace the common ones."""
    from importlib.resources import files

    templates = files("offbook.cli").joinpath("templates")
    found: dict[str, Traversable] = {}
    for folder in ("common", kind.replace("-", "_")):
        for path, template in _walk(templates.joinpath(folder)):
            name = path.removesuffix(_TEMPLATE)
            found[f".{name}" if name.startswith(_DOTTED) else name] = template
    return dict(sorted(found.items()))


def _needs_settings(folder: Path, kind: ProjectKind) -> bool:
    """Return whether pytest would use settings from a folder above, which may break the tests."""
    if "python -m pytest" not in kind.next_steps or any((folder / name).exists() for name in _PYTEST_SETTINGS):
        return False
    return any((above / name).exists() for above in folder.parents for name in _PYTEST_SETTINGS)


def _walk(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    """Return the files below a folder, by their paths in it."""
    found = []
    for each in folder.iterdir():
        name = f"{prefix}{each.name}"
        found += _walk(each, f"{name}/") if each.is_dir() else [(name, each)]
    return found


def _check(folder: Path, files: dict[str, Traversable], *, force: bool) -> None:
    """Refuse a path that is not a folder, existing files, and links that lead out of the folder."""
    from offbook.errors import InputError

    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file, not a folder", source=str(folder))
    for name in files:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise InputError(f"a link leads {name} out of the folder", source=str(folder), hint="remove the link")
    there = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
    if there and not force:
        hint = "--force overwrites them; or name a folder that does not exist"
        raise InputError(f"already there: {', '.join(there)}", source=str(folder), hint=hint)


def _write(folder: Path, files: dict[str, Traversable], kind: ProjectKind) -> None:
    from offbook.errors import InputError
    from offbook.installed import requirement

    values = {OFFBOOK: requirement(), PACKAGES: "\n".join(kind.packages), KEY: kind.key}
    for name, template in files.items():
        text = template.read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.rstrip() + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {name}: {error.strerror}", source=str(folder)) from None
