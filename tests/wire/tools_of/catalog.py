"""The frameworks whose tools are taken over, with the versions that are tried: one environment each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = Path(os.environ.get("OFFBOOK_ENVS") or ROOT / ".scratch/envs")


class Framework(Struct, frozen=True):
    """A framework: its name, the environment and the programs that it has here, and its packages.

    The first package is the one that is hooked. `shared` is an environment that the tests of CI make anyway.
    """

    title: str
    name: str
    requirements: tuple[str, ...]
    shared: Path | None = None

    @property
    def package(self) -> str:
        return self.requirements[0].partition("==")[0].partition("[")[0]

    @property
    def version(self) -> str:
        return self.requirements[0].partition("==")[2]

    @property
    def python(self) -> Path:
        """Its own environment, or one that has it, too."""
        own = ENVIRONMENTS / self.name / "bin/python"
        return own if own.exists() or self.shared is None else self.shared

    @property
    def is_installed(self) -> bool:
        package = self.package.replace("-", "_")
        return any(self.python.parents[1].glob(f"lib/python*/site-packages/{package}-*.dist-info"))


CONFORMANCE = Path(sys.executable)
"""The environment of all tests."""

FRAMEWORKS = (
    Framework(
        "LangChain, LangGraph",
        "langgraph",
        ("langchain-core==1.7.2", "langchain==1.4.7", "langchain-openai==1.7.3", "langgraph==1.2.20"),
        CONFORMANCE,
    ),
    Framework("pydantic-ai", "pydantic_ai", ("pydantic-ai-slim[openai]==2.66.0",), CONFORMANCE),
    Framework("OpenAI Agents SDK", "openai_agents", ("openai-agents==0.24.0",), CONFORMANCE),
    Framework("Google ADK", "google_adk", ("google-adk==2.13.0",)),
    Framework("smolagents", "smolagents", ("smolagents[openai]==1.26.0",)),
    Framework("CrewAI", "crewai", ("crewai==1.15.30",)),
    Framework("AutoGen", "autogen", ("autogen-core==0.7.5", "autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5")),
    Framework("LlamaIndex", "llama_index", ("llama-index-core==0.14.25", "llama-index-llms-openai-like==0.8.1")),
    Framework("Haystack", "haystack", ("haystack-ai==3.4.0",)),
    Framework("agno", "agno", ("agno==3.1.10", "openai==3.51.0")),
    Framework("Strands Agents", "strands", ("strands-agents[openai]==1.62.0",)),
    Framework("Semantic Kernel", "semantic_kernel", ("semantic-kernel==1.45.0",)),
    Framework("DSPy", "dspy", ("dspy==3.4.1",)),
    Framework("Claude Agent SDK", "claude_agent_sdk", ("claude-agent-sdk==0.2.184",)),
    Framework("MCP SDK 1", "mcp1", ("mcp==1.30.0",), ROOT / ".scratch/mcp1/bin/python"),
    Framework("MCP SDK 2", "mcp2", ("mcp==2.3.0",), ROOT / ".scratch/mcp2/bin/python"),
    Framework("FastMCP", "fastmcp", ("fastmcp==4.1.2",), ROOT / ".scratch/mcp2/bin/python"),
)

TRIED = tuple(each for each in FRAMEWORKS if each.shared is not None or each.is_installed)
"""Those of CI, and the others once `make works-with` has made their environments."""
