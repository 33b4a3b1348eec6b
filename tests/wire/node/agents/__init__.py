"""Agents for Node, and the Nodes that they run with."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[4]
PACKAGES = ROOT / ".scratch/node_agents"
NEWER = PACKAGES / "node_modules/.bin/node"
NODES = {"node": shutil.which("node"), "a newer node": str(NEWER) if NEWER.exists() else None}
"""The Node of this machine, and one that tells synchronously which modules are loaded, by `module.registerHooks`."""
