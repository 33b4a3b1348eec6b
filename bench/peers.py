"""The peers: loaded if they are installed, told of if they are not."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

PEERS = {"agentloom": "agentloom", "pydantic_ai": "pydantic-ai-slim", "litellm": "litellm", "vcr": "vcrpy"}


def load_peer(module: str) -> ModuleType | None:
    """The module of a peer, or None if it cannot be imported. Typed loosely: peers need not be installed."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or importing it asks the network
    try:
        return import_module(module)
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
