"""The agents: real ones, each in an environment of its own, with what a scripted model has them do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
SCRATCH = ROOT / ".scratch"
COMMAND = Path(sys.executable).parent / "offbook"
NODE_SERVER = SCRATCH / "node_mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
PYTHON_SERVER = HERE.parent / "clients" / "server.py"


class Framework(Struct, frozen=True):
    """A framework: the environment that it is installed in, the program of its agent, and its packages."""

    name: str
    environment: str
    program: str
    packages: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        return [str(SCRATCH / self.environment / "bin/python"), str(HERE / self.program)]


FRAMEWORKS = (
    Framework("pydantic-ai", "mcp2", "pydantic_ai_agent.py", ("pydantic-ai-slim",)),
    Framework("LangGraph", "mcp1", "langgraph_agent.py", ("langgraph", "langchain-mcp-adapters")),
    Framework("OpenAI Agents SDK", "mcp2", "agents_sdk_agent.py", ("openai-agents",)),
)
ANSWER = "It is 3."
NUMBERS = {"a": 1, "b": 2}


def script(*tools: str) -> dict[str, Any]:
    """What a model says that calls these tools one after the other, and then answers."""
    calls = [
        {"tool_calls": [{"id": f"call_{number}", "name": tool, "arguments": NUMBERS}]}
        for number, tool in enumerate(tools)
    ]
    return {"turns": [*calls, {"content": ANSWER}]}
