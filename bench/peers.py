"""The peers: loaded if they are installed, listed as missing if they are not."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

PEERS = {
    "agentloom": "agentloom",
    "pydantic_ai": "pydantic-ai-slim",
    "litellm": "litellm",
    "vcr": "vcrpy",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "agents": "openai-agents",
    "forge": "forge-guardrails",
}
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING_V2": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "true",
}
"""Settings without which peers ask the network: LiteLLM when it is imported, the others when they run."""


def import_peer(module: str) -> ModuleType:
    """The module of a peer. Typed loosely: peers need not be installed.

    Raises:
        ImportError: it cannot be imported.
    """
    os.environ.update(OFFLINE)
    return import_module(module)


def load_peer(module: str) -> ModuleType | None:
    """The module of a peer, or None if it cannot be imported."""
    try:
        return import_peer(module)
    except ImportError:
        return None


def peer_notes() -> list[str]:
    """One line on each peer: its version, or that it is left out."""
    return [_note(module, distribution) for module, distribution in PEERS.items()]


def _note(module: str, distribution: str) -> str:
    if load_peer(module) is None:
        return f"{distribution} (not installed, left out)"
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return distribution
