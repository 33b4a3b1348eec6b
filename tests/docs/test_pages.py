"""Every example of the documentation runs: Python blocks in order, console blocks with their output.

A block with the name of a file behind its language is written to that file.
"""

import ast
import inspect
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

import offbook
from offbook.cli.main import main
from tests.conftest import forget_written_modules

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUNS = {"python", "console"}
WITHOUT_EXAMPLES = {"design", "wire-frameworks", "wire-node"}
"""The map, and tables that tests of their own compare with what they observe."""

FILE = re.compile(r"[\w-]+\.\w+")

INNER_PYTEST = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "offbook.pytest_plugin.plugin,pytest_asyncio.plugin",
}
"""For the runs of pytest that pages show: the plugins of all that is installed here take seconds to load."""


INNER_OPTIONS = [
    *("-o", "asyncio_default_fixture_loop_scope=function"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # another test of this process may have loaded the plugin
    *("-p", "no:unraisableexception"),  # it collects garbage twice a run, and here is all that other tests have made
]


def blocks(page):
    found = ((kind, note.strip(), text) for kind, note, text in BLOCK.findall(page.read_text()))
    return [(kind, note, text) for kind, note, text in found if kind in RUNS or FILE.fullmatch(note)]


def run_python(source, namespace):
    code = compile(source, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        offbook.run(eval(code, namespace), virtual_time=True)
    else:
        exec(code, namespace)


def fits(shown, expected):
    """Whether the text is what was expected, where `…` stands for anything."""
    first, *rest = expected.split("…")
    if not rest:
        return shown == expected
    if not shown.startswith(first):
        return False
    end = len(first)
    for piece in rest[:-1]:
        found = shown.find(piece, end)
        if found < 0:
            return False
        end = found + len(piece)
    return len(shown) - end >= len(rest[-1]) and shown.endswith(rest[-1])


def run_console(text, capfd):
    """Run each `$` line; the lines under it are its output, in which `…` stands for anything."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        capfd.readouterr()
        run_command(shlex.split(command))
        output = "".join(capfd.readouterr())
        shown = "\n".join(line.rstrip() for line in output.strip().splitlines())
        assert fits(shown, expected.strip()), f"$ {command}\n{shown}"


def run_command(command):
    """Run a command in this process, without what it would find of earlier ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        match command:
            case ["offbook", *_]:
                patch.setattr(sys, "argv", command)
                with pytest.raises(SystemExit):
                    main()
            case ["pytest", *arguments] | ["python", "-m", "pytest", *arguments]:
                pytest.main([*arguments, *INNER_OPTIONS])
            case _:
                raise AssertionError(f"a page runs {command[0]}")
    forget_written_modules()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in INNER_PYTEST.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    namespace, ran = {"__name__": "__main__"}, 0
    for kind, note, text in blocks(page):
        if note == "no-run":
            continue
        ran += 1
        if FILE.fullmatch(note):
            (tmp_path / note).write_text(text)
        elif kind == "python":
            run_python(text, namespace)
        else:
            run_console(text, capfd)
    assert ran or page.stem in WITHOUT_EXAMPLES


def test_only_examples_that_need_a_key_are_not_run():
    left_out = [text for page in PAGES for _, note, text in blocks(page) if note == "no-run"]
    assert all("api_key" in text for text in left_out)
    assert len(left_out) <= 2


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", BLOCK.sub("", page.read_text())):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
