"""The programs that nobody here wrote, and how each is made to write hello.txt: one environment each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from offbook.messages import JsonObject

ROOT = Path(__file__).parents[2]
PROGRAMS_FOLDER = Path(os.environ.get("OFFBOOK_PROGRAMS") or ROOT / ".scratch/programs")
NODE = "22.23.3"
"""The Node that the programs need, which is newer than Debian's."""
TASK = "write hello.txt"


class TriedProgram(Struct, frozen=True, kw_only=True):
    """A program as it is tried.

    Attributes:
        name: its preset.
        source: where `requirements` come from, the first of which is the program itself.
        words: its command; the first is the name of its executable.
        calls: what the model calls, by the tool: the first that is offered. `{folder}` is the working folder.
        says: what the model says instead, for programs without tools.
        writes: whether it writes the file.
        environment: variables that a user of it would set, too.
        upstream: the vendor whose calls are intercepted, and are recorded from the scripted model.
        is_static: whether nothing can be preloaded into it: its date is moved by the time zone.
    """

    name: str
    source: Literal["npm", "pip"]
    requirements: tuple[str, ...]
    words: tuple[str, ...]
    calls: dict[str, JsonObject] = {}
    says: str = "Done."
    writes: bool = True
    environment: dict[str, str] = {}
    upstream: str = ""
    is_static: bool = False

    @property
    def version(self) -> str:
        return self.requirements[0].rpartition("@" if self.source == "npm" else "==")[2]

    @property
    def folder(self) -> Path:
        return PROGRAMS_FOLDER / self.name

    @property
    def executable(self) -> Path:
        return self.folder / ("node_modules/.bin" if self.source == "npm" else "bin") / self.words[0]


WRITE = {"file_path": "{folder}/hello.txt", "content": "hello\n"}
SHELL = "echo hello > hello.txt"

PROGRAMS = (
    TriedProgram(
        name="claude-code",
        source="npm",
        requirements=("@anthropic-ai/claude-code@2.1.327",),
        words=("claude", "-p", TASK, "--permission-mode", "acceptEdits"),
        calls={"Write": WRITE},
    ),
    TriedProgram(
        name="codex",
        source="npm",
        requirements=("@openai/codex@0.169.0",),
        words=(
            *("codex", "exec", "-m", "gpt-5.1", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", TASK),
        ),
        calls={"exec_command": {"cmd": SHELL}},
        is_static=True,
    ),
    TriedProgram(
        name="opencode",
        source="npm",
        requirements=("opencode-ai@1.18.33",),
        words=("opencode", "run", "--model", "openai/gpt-5-mini", TASK),
        calls={"bash": {"command": SHELL, "description": "Writes hello.txt"}},
    ),
    TriedProgram(
        name="gemini-cli",
        source="npm",
        requirements=("@google/gemini-cli@0.61.0",),
        words=("gemini", "--model", "gemini-2.5-flash", "--yolo", "-p", TASK),
        calls={"write_file": WRITE},
        environment={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        upstream="google",
    ),
    TriedProgram(
        name="qwen-code",
        source="npm",
        requirements=("@qwen-code/qwen-code@0.24.4",),
        words=("qwen", "--auth-type", "openai", "--model", "gpt-5-mini", "--yolo", "-p", TASK),
        calls={"write_file": WRITE},
    ),
    TriedProgram(
        name="gptme",
        source="pip",
        requirements=("gptme==0.35.1",),
        words=("gptme", "--non-interactive", "--no-confirm", "--tool-format", "tool", "-m", "openai/gpt-4o-mini", TASK),
        calls={"save": {"path": "hello.txt", "content": "hello\n"}},
    ),
    TriedProgram(
        name="aider",
        source="pip",
        requirements=("aider-chat==0.86.2",),
        words=("aider", "--model", "openai/gpt-4o-mini", "--no-git", "--yes", "--message", TASK),
        says="hello.txt\n```\nhello\n```\n",
    ),
    TriedProgram(
        name="mini-swe-agent",
        source="pip",
        # it imports mcp, which it does not require
        requirements=("mini-swe-agent==2.4.6", "mcp"),
        words=("mini", "-m", "openai/gpt-4o-mini", "-t", TASK, "-y", "--exit-immediately"),
        calls={"bash": {"command": f"{SHELL} && echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}},
    ),
    TriedProgram(
        name="llm",
        source="pip",
        requirements=("llm==0.36",),
        words=("llm", "-m", "gpt-4o-mini", TASK),
        writes=False,
    ),
)
BY_NAME = {each.name: each for each in PROGRAMS}
KEPT = ("claude-code", "codex", "qwen-code", "mini-swe-agent", "llm")
"""Those that CI installs and tries: in TypeScript, Rust and Python, over three protocols, with and without tools."""
