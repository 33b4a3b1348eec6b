"""The source that this offbook was installed from, as an argument for pip."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution

from offbook import __version__


def requirement(extra: str = "") -> str:
    """Return the requirement that installs this offbook, with an extra: its source if it has one, else its version.

    An editable install stays editable.
    """
    name = f"offbook[{extra}]" if extra else "offbook"
    try:
        source = json.loads(distribution("offbook").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        source = {}
    if "url" not in source:
        return f"{name}=={__version__}"
    if source.get("dir_info", {}).get("editable"):
        return f"--editable {source['url']}{name.removeprefix('offbook')}"
    vcs = source.get("vcs_info", {})
    return f"{name} @ {vcs['vcs']}+{source['url']}@{vcs['commit_id']}" if vcs else f"{name} @ {source['url']}"


def install_hint(extra: str) -> str:
    """Return the command that adds an extra to this offbook."""
    wanted = requirement(extra)
    option = "--editable " if wanted.startswith("--editable ") else ""
    return f"pip install {option}'{wanted.removeprefix(option)}'"
