"""Every example of the documentation runs: Python blocks in order, console blocks with their output.

A block with the name of a file behind its language is written to that file. `text output` is what the Python block
before has printed.
"""

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from docs_site import reference
from docs_site.build import listed_pages, write_pages

import offbook
from offbook.cli.main import main
from offbook.faults.catalog import PLANNED_FAULT_TYPES
from offbook.lazy_names import PUBLIC_MODULES, public_names
from tests.conftest import forget_written_modules

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TUTORIALS = [DOCS / "start" / f"{name}.md" for name in ("openai", "node")]
GATE = DOCS / "explore" / "gate.md"
"""They explore whole agents: `test_tutorials.py` follows them in `make zoo`."""

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUNS = {"python", "console"}
WITHOUT_EXAMPLES = {
    *("../README", "index", "command-line", "design", "reports", "start/choose", "help/glossary", "works-with"),
    *(
        "wire-frameworks",
        "wire-node",
        "wire/protocols",
        "faults/clients",
        "faults/kinds",
        "faults/recordings",
    ),
    *("explore/programs", "explore/verdicts", "explore/virtual-time"),
    *(
        "mcp/faults",
        "mcp/protocol",
        "pytest/options",
        "recording/convert",
        "scenarios/mcp",
        "reference/commands",
        "reference/refusals",
        "workflows/agentloom",
    ),
}
"""Lists, the map, what needs other machines, and tables that tests of their own compare with what they observe."""

NODE_SDKS = ROOT / ".scratch" / "node_sdks"
FILE = re.compile(r"(?:[\w-]+/)?[\w-]+\.\w+")
OUTPUT = "output"

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


def name_of(page):
    return os.path.relpath(page.with_suffix(""), DOCS)


def blocks(page):
    found = ((kind, note.strip(), text) for kind, note, text in BLOCK.findall(page.read_text()))
    return [(kind, note, text) for kind, note, text in found if kind in RUNS or note == OUTPUT or FILE.fullmatch(note)]


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
        check_output("".join(capfd.readouterr()), expected, of=f"$ {command}")


def check_output(output, expected, *, of):
    shown = "\n".join(line.rstrip() for line in output.strip().splitlines())
    assert fits(shown, expected.strip()), f"{of}\n{shown}"


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
            case ["cd", folder]:
                os.chdir(folder)
            case ["python", "-m", "pip", "install", "-r", requirements]:
                assert Path(requirements).exists()  # they are installed here
            case ["npm", "install"]:
                Path("node_modules").symlink_to(NODE_SDKS / "node_modules")
            case ["npm", "test"]:
                subprocess.run(command, check=True)
            case _:
                raise AssertionError(f"a page runs {command[0]}")
    forget_written_modules()


def edit(file, difference):
    """Apply a difference that a page shows to a file: the lines with `-` become those with `+`."""
    lines = difference.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line.startswith(sign)) for sign in "-+")
    text = file.read_text()
    assert old
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new))


def run_examples(page, capfd):
    """Run the examples of a page in the working directory, and return how many there were."""
    namespace, ran, printed = {"__name__": "__main__"}, 0, ""
    for kind, note, text in blocks(page):
        if note == "no-run":
            continue
        ran += 1
        if kind == "diff":
            edit(Path(note), text)
        elif FILE.fullmatch(note):
            Path(note).parent.mkdir(exist_ok=True)
            Path(note).write_text(text)
        elif note == OUTPUT:
            check_output(printed, text, of=page.name)
        elif kind == "python":
            capfd.readouterr()
            run_python(text, namespace)
            printed = capfd.readouterr().out
        else:
            run_console(text, capfd)
    return ran


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """The working directory of a page, with the environment that its commands run in."""
    monkeypatch.chdir(tmp_path)
    for name, value in INNER_PYTEST.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def parameter(page):
    """The page as a parameter of a test, marked if its examples load an SDK."""
    loads_sdk = re.search(r"^(import|from) (anthropic|openai)", page.read_text(), re.MULTILINE)
    return pytest.param(page, marks=pytest.mark.loads_sdk if loads_sdk else (), id=name_of(page))


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("page", [parameter(page) for page in PAGES if page not in (*TUTORIALS, GATE)])
def test_the_examples_of_a_page_run(page, capfd):
    assert bool(run_examples(page, capfd)) == (name_of(page) not in WITHOUT_EXAMPLES)


def test_only_examples_that_need_a_key_are_not_run():
    left_out = [text for page in PAGES for _, note, text in blocks(page) if note == "no-run"]
    assert all("api_key" in text for text in left_out)
    assert len(left_out) <= 2


def headings(page):
    """Return the anchors of a page, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_between_pages_lead_to_a_file_and_to_a_heading_of_it():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", BLOCK.sub("", page.read_text())):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in headings(linked), f"{page.name}: {target}#{anchor}"


def test_every_page_is_in_the_navigation_of_the_site_once():
    listed = list(listed_pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    written = [str(page.relative_to(DOCS)) for page in PAGES[1:]]
    assert sorted(listed) == sorted({*written, *(f"reference/{name}" for name in reference.pages())})


@pytest.mark.parametrize("page", reference.COMMITTED, ids=lambda page: page.name)
def test_a_page_of_the_reference_is_what_the_code_says(page):
    assert page.read_text() == reference.pages()[page.name], "python -m docs_site.reference renews it"


def test_the_reference_has_every_command_fault_and_public_name():
    pages = reference.pages()
    python = "".join(text for name, text in pages.items() if name.startswith("python/"))
    assert re.findall(r"^### (\w+)$", pages["faults.md"], re.MULTILINE) == list(PLANNED_FAULT_TYPES)
    public = {name for module in PUBLIC_MODULES for name in public_names(module)}
    assert set(re.findall(r"^## (\w+)$", python, re.MULTILINE)) == public
    assert re.findall(r"^\| \[`(\w+)`\]", pages["python/offbook.md"], re.MULTILINE) == [
        name for name in offbook.__all__ if name != "__version__"
    ]
    for options in (
        "`--faults` `NAMES`",
        "`--gave-up` `REGEX`",
        "`--run-tools`",
        "### offbook recording check",
        "### offbook mcp serve",
    ):
        assert options in pages["commands.md"]


def test_pages_show_commands_with_options_that_they_have():
    sections = re.split(r"^### ", reference.pages()["commands.md"], flags=re.MULTILINE)[1:]
    options = {text.partition("\n")[0]: set(re.findall(r"`(--[\w-]+)`", text)) for text in sections}
    names = "|".join(sorted(options, key=len, reverse=True))
    for page in PAGES:
        for name, arguments in re.findall(rf"({names})(?![\w-])([^\n`]*)", page.read_text()):
            own = re.split(r" -- | #|\. |\boffbook ", arguments)[0]
            shown = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", own))
            assert shown <= {*options[name], "--help"}, f"{page.name}: {name}{own}"


def test_the_site_titles_blocks_and_leads_links_out_of_the_docs_to_the_repository(tmp_path):
    write_pages(tmp_path / "pages", repository="https://forge.test/offbook")
    examples = (tmp_path / "pages" / "examples.md").read_text()
    assert "](https://forge.test/offbook/blob/main/examples/mcp)" in examples
    assert "](mcp.md)" in examples
    assert '```python title="test_greeting.py"\n' in (tmp_path / "pages" / "pytest.md").read_text()
