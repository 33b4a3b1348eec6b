"""offbook init: writes a small project that works at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "flow.yaml",
    "tools.py",
    "recordings/flow.json",
    "tests/test_flow.py",
    "requirements.txt",
    "README.md",
    ".github/workflows/test.yml",
    ".gitignore",
)
"""The files of a project. Templates have the same names, without a leading dot."""
REQUIREMENT = "<offbook>"
"""The placeholder in templates for the requirement that installs offbook."""


def init(
    folder: Annotated[str, typer.Argument(help="The folder of the project; created if missing.")] = ".",
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a small project with a workflow, a recording and tests.

    The project has a workflow, a tool, a recording, tests and a CI workflow, and its tests pass at once. If one of the
    files exists, nothing is written and the exit code is 2, unless --force is given.

    [bold]Examples[/bold]

      offbook init

      offbook init my-agent
    """
    import shlex
    from pathlib import Path

    from offbook.text import pluralize, printable

    _check(Path(folder), force=force)
    _write(Path(folder))
    typer.echo(printable(f"{folder}: wrote {pluralize(len(FILES), 'file')}"))
    typer.echo("".join(f"  {name}\n" for name in FILES))
    typer.echo("What to do next:")
    if Path(folder) != Path():
        typer.echo(printable(f"  cd {shlex.quote(folder)}"))
    typer.echo("  python -m pip install -r requirements.txt")
    typer.echo("  offbook replay flow.yaml --recording recordings/flow.json")
    typer.echo("  python -m pytest")


def _check(folder: Path, *, force: bool) -> None:
    """Refuse a path that is not a folder, existing files, and links that lead out of the folder."""
    from offbook.errors import InputError

    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file, not a folder", source=str(folder))
    for name in FILES:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise InputError(f"a link leads {name} out of the folder", source=str(folder), hint="remove the link")
    there = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if there and not force:
        hint = "--force overwrites them; or name a folder that does not exist"
        raise InputError(f"already there: {', '.join(there)}", source=str(folder), hint=hint)


def _write(folder: Path) -> None:
    from importlib.resources import files

    from offbook.errors import InputError

    templates = files("offbook").joinpath("templates", "project")
    for name in FILES:
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = templates.joinpath(name.removeprefix(".")).read_text(encoding="utf-8")
            (folder / name).write_text(text.replace(REQUIREMENT, _requirement()), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {name}: {error.strerror}", source=str(folder)) from None


def _requirement() -> str:
    """Return the requirement that installs this offbook: its source if it has one, else its version."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    from offbook import __version__

    try:
        source = json.loads(distribution("offbook").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        source = {}
    if "url" not in source:
        return f"offbook=={__version__}"
    vcs = source.get("vcs_info", {})
    return f"offbook @ {vcs['vcs']}+{source['url']}@{vcs['commit_id']}" if vcs else f"offbook @ {source['url']}"
