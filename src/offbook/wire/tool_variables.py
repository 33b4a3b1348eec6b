"""The environment that takes over a program's tools."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from offbook.settings import ToolSettings
from offbook.wire.server.control import TOOLS_PATH

URL_VARIABLE, SOCKET_VARIABLE, FUNCTIONS_VARIABLE = (
    "OFFBOOK_TOOLS_URL",
    "OFFBOOK_TOOLS_SOCKET",
    "OFFBOOK_TOOL_FUNCTIONS",
)
_GUEST = Path(__file__).parents[1] / "subjects" / "program" / "guest"
SITE = str(_GUEST / "site")
"""The folder of the `sitecustomize` that Python loads when it starts."""
NODE_GUEST = str(_GUEST / "node_tools.cjs")
"""The file that Node loads when it starts."""
NODE_OPTIONS = "NODE_OPTIONS"


def tool_variables(
    environment: Mapping[str, str], url: str, tools: Mapping[str, ToolSettings], *, socket: str = ""
) -> dict[str, str]:
    """Return the variables that make a Python or Node program hand its tools to the server at `url`.

    The program asks at the Unix `socket` instead, if it exists and can be reached.
    """
    functions = {name: tool.function for name, tool in tools.items() if tool.function}
    paths = [SITE, *filter(None, [environment.get("PYTHONPATH")])]
    node_options = [*filter(None, [environment.get(NODE_OPTIONS)]), f"--require {json.dumps(NODE_GUEST)}"]
    found = {
        URL_VARIABLE: f"{url}{TOOLS_PATH}",
        SOCKET_VARIABLE: socket,
        "PYTHONPATH": os.pathsep.join(paths),
        NODE_OPTIONS: " ".join(node_options),
    }
    lines = "\n".join(f"{name}={place}" for name, place in functions.items())
    return found | ({FUNCTIONS_VARIABLE: lines} if lines else {})
