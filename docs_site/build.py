"""Builds the documentation as a site: the pages of docs/, those that are written from the code, and llms.txt.

Zensical reads a copy of the pages, in which blocks have titles that it knows, and links that lead out of docs/ lead to
the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs_site import reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = ROOT / "zensical.toml"
_FENCE = re.compile(r"^```(\w+)[ \t]+([\w.-]+)$", re.MULTILINE)
_LINK_UP = re.compile(r"\]\((\.\./[^)#]+)")
_EXTERNAL = re.compile(r'<(?:script|img|iframe|link rel="stylesheet")[^>]*?(?:src|href)="(https?:[^"]+)"')


def main() -> None:
    """Build the site; exit with 1 if a link is broken, or if a page would load something from elsewhere."""
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["project"]
    copy, site = ROOT / settings["docs_dir"], ROOT / settings["site_dir"]
    write_pages(copy, repository=settings["extra"]["repository"])
    program = Path(sys.executable).with_name("zensical")
    command = [str(program), "build", "--clean", "--strict", "--config-file", str(SETTINGS)]
    built = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, check=False)  # noqa: S603
    if built.returncode:
        sys.exit(built.returncode)
    (site / "llms.txt").write_text(llms_txt(copy, settings), encoding="utf-8")
    if found := sorted(external_resources(site)):
        sys.exit("these pages load something from elsewhere:\n" + "\n".join(found))
    print(f"\n{site}: python -m http.server --bind 127.0.0.1 --directory {site.relative_to(ROOT)}")  # noqa: T201


def write_pages(folder: Path, *, repository: str) -> None:
    """Write all pages to a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in folder.rglob("*.md"):
        text = _titled(page.read_text(encoding="utf-8"))
        page.write_text(_link_out(text, page.relative_to(folder).parent, repository), encoding="utf-8")
    for name, text in reference.pages().items():
        target = folder / "reference" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _titled(text: str) -> str:
    """Return a page whose blocks have titles for Zensical, and no diagrams: a script from elsewhere would draw them."""
    titled = _FENCE.sub(lambda found: f"```{found[1]}" + f' title="{found[2]}"' * (found[2] != "no-run"), text)
    return titled.replace("```mermaid", "```text")


def _link_out(text: str, folder: Path, repository: str) -> str:
    """Return a page of that folder of docs/ whose links to other folders of the repository lead there."""

    def target(found: re.Match[str]) -> str:
        path = os.path.normpath(Path("docs", folder, found[1]))
        return found[0] if path.startswith("docs/") else f"]({repository}/blob/main/{path}"

    return _LINK_UP.sub(target, text)


def listed_pages(nav: list[Any]) -> Iterator[str]:
    """Yield the pages of a navigation, in their order."""
    for entry in nav:
        (value,) = entry.values() if isinstance(entry, dict) else (entry,)
        yield from listed_pages(value) if isinstance(value, list) else [value]


def llms_txt(pages: Path, settings: dict[str, Any]) -> str:
    """Return the list of all pages with the first sentence of each, for language models."""
    lines = [f"# {settings['site_name']}", f"> {settings['site_description']}"]
    for section in settings["nav"]:
        ((title, value),) = section.items()
        names = listed_pages(value if isinstance(value, list) else [value])
        lines.append(f"## {title}\n\n" + "\n".join(_llms_line(pages / name, name) for name in names))
    return "\n\n".join(lines) + "\n"


def _llms_line(page: Path, name: str) -> str:
    """Return the link to a page with its first sentence, if it begins with prose."""
    heading, _, rest = page.read_text(encoding="utf-8").partition("\n")
    paragraph = rest.strip().partition("\n\n")[0]
    plain = " ".join(re.sub(r"\]\([^)]*\)|[\[*]", "", paragraph).split())
    sentence = "" if plain.startswith(("|", "```", "#")) else ": " + re.split(r"(?<=[.:])\s", plain)[0]
    return f"- [{heading.removeprefix('# ')}]({name.removesuffix('.md')}.html){sentence}"


def external_resources(site: Path) -> Iterator[str]:
    """Yield what pages would load from other hosts: scripts, styles, fonts and pictures."""
    for page in site.rglob("*.html"):
        for address in _EXTERNAL.findall(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(site)}: {address}"


if __name__ == "__main__":
    main()
