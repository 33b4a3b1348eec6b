"""The environment in which a program's tools are taken over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from offbook.settings import ToolSettings
from offbook.wire.server.control import TOOLS_PATH

URL_VARIABLE, FUNCTIONS_VARIABLE = "OFFBOOK_TOOLS_URL", "OFFBOOK_TOOL_FUNCTIONS"
SITE = str(Path(__file__).parents[1] / "subjects" / "program" / "guest" / "site")
"""The folder of the `sitecustomize` that Python loads when it starts."""


def tool_variables(environment: Mapping[str, str], url: str, tools: Mapping[str, ToolSettings]) -> dict[str, str]:
    """Return the variables that have the tools of a Python program taken over by the server at `url`."""
    functions = {name: tool.function for name, tool in tools.items() if tool.function}
    paths = [SITE, *filter(None, [environment.get("PYTHONPATH")])]
    found = {URL_VARIABLE: f"{url}{TOOLS_PATH}", "PYTHONPATH": os.pathsep.join(paths)}
    lines = "\n".join(f"{name}={place}" for name, place in functions.items())
    return found | ({FUNCTIONS_VARIABLE: lines} if lines else {})
