"""Tries what frameworks do by default when something breaks.

`python -m tests.works_with.failures [NAME …]` tries them in a network namespace without a way out, with answers
written by hand, and writes what was seen to `.scratch/works-with/failures/NAME.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from offbook.cli import TIMED_OUT
from tests.wire.node.agents import NEWER, PACKAGES
from tests.wire.tools_of.catalog import CONFORMANCE, ENVIRONMENTS
from tests.wire.tools_of.catalog import FRAMEWORKS as HOOKED

from .namespace import run_inside
from .trial import KEYS, OFFBOOK, PLACES, RESULTS

SEEN = RESULTS / "failures"
AGENTS = Path(__file__).parent / "agents"
LIMIT_S = 180
SAID = ('{"answer": ', '{"error": ')
"""How lines of the agents begin."""


def _asks_for(tool: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"call_{tool}", "name": tool, "arguments": {"order": 7}}]}


def _says(text: str) -> dict[str, Any]:
    return {"content": text}


def _thought(tool: str, **arguments: Any) -> dict[str, Any]:
    """How DSPy has a model ask for a tool."""
    fields = {"next_thought": "Go on.", "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
    return _says("".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in fields.items()))


DONE = "It is refunded: order 7 was paid on Monday."
_THOUGHT = "[[ ## reasoning ## ]]\nIt is.\n\n[[ ## answer ## ]]\n" + DONE + "\n\n[[ ## completed ## ]]\n"
_FINAL = {"tool_calls": [{"id": "call_end", "name": "final_answer", "arguments": {"answer": DONE}}]}


class TriedFramework(Struct, frozen=True, kw_only=True, dict=True):
    """A framework: the name of its agent in `agents/shop.*`, its package, and what its model says.

    Attributes:
        calls: the names of its two tools, as models know them.
        says: what the model says, if that is not a call of each tool and an answer.
        has_streams: whether its answers can be streamed.
        keeps: whether its agent keeps the conversation.
    """

    title: str
    name: str
    package: str
    is_for_node: bool = False
    calls: tuple[str, str] = ("look_up", "refund")
    says: tuple[dict[str, Any], ...] = ()
    has_streams: bool = True
    keeps: bool = True

    @property
    def file_name(self) -> str:
        return f"{self.name}-node" if self.is_for_node else self.name

    @property
    def answers(self) -> list[dict[str, Any]]:
        said = self.says or (*map(_asks_for, self.calls), _says(DONE))
        return [*said, *[said[-1]] * 6]

    @cached_property
    def python(self) -> Path:
        own = ENVIRONMENTS / self.name / "bin/python"
        return own if own.exists() else CONFORMANCE

    @property
    def words(self) -> list[str]:
        if self.is_for_node:
            return [str(NEWER), "shop.mjs", self.name]
        return [str(self.python), "shop.py", self.name]

    @cached_property
    def version(self) -> str:
        """The installed version; empty if it is not installed."""
        if self.is_for_node:
            package = PACKAGES / "node_modules" / self.package / "package.json"
            return json.loads(package.read_text())["version"] if package.exists() else ""
        found = [
            *self.python.parents[1].glob(f"lib/python*/site-packages/{self.package.replace('-', '_')}-*.dist-info")
        ]
        return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


OTHERS = {
    "claude_agent_sdk": {"calls": ("mcp__shop__look_up", "mcp__shop__refund")},
    "crewai": {"keeps": False},
    "dspy": {
        "says": (_thought("look_up", order=7), _thought("refund", order=7), _thought("finish"), _says(_THOUGHT)),
        "has_streams": False,
        "keeps": False,
    },
    "semantic_kernel": {"calls": ("Shop-look_up", "Shop-refund")},
    "smolagents": {"says": (_asks_for("look_up"), _asks_for("refund"), _FINAL)},
}
FRAMEWORKS = (
    TriedFramework(title="OpenAI SDK, a loop by hand", name="openai_by_hand", package="openai"),
    TriedFramework(title="Anthropic SDK, `tool_runner`", name="anthropic_runner", package="anthropic", keeps=False),
    TriedFramework(title="Google Gen AI SDK, `chats`", name="google_genai", package="google-genai"),
    *(
        TriedFramework(title=each.title, name=each.name, package=each.package, **OTHERS.get(each.name, {}))  # type: ignore[arg-type]
        for each in HOOKED
        if not each.name.startswith(("mcp", "fastmcp"))
    ),
    TriedFramework(title="magentic", name="magentic", package="magentic", keeps=False),
    TriedFramework(title="Vercel AI SDK", name="ai", package="ai", is_for_node=True),
    TriedFramework(title="OpenAI Agents for Node", name="openai_agents", package="@openai/agents", is_for_node=True),
    TriedFramework(title="LangChain for Node", name="langchain", package="langchain", is_for_node=True),
    TriedFramework(title="Mastra", name="mastra", package="@mastra/core", is_for_node=True, keeps=False),
)


class Ended(Struct, frozen=True, kw_only=True):
    """What came of a run: each line that it printed, the tools that ran, the attempts of each call, and when."""

    said: list[dict[str, Any]]
    ran: list[str]
    calls: list[dict[str, Any]]
    times: list[float]
    stderr: str
    is_over: bool = True

    def tries(self, call: int) -> int:
        return sum(each["call"] == call for each in self.calls)

    @property
    def last(self) -> str:
        """What its last question came to: `an answer`, or the name of an error."""
        if not self.is_over:
            return f"not over after {LIMIT_S} s"
        if not self.said:
            return "the process ends"
        said = self.said[-1]
        return f"`{said['error']}`" if "error" in said else "an answer"


def _outage(ended: Ended) -> str:
    tries, took_s = len(ended.calls) - 1, ended.times[-1] - ended.times[0] if ended.times else 0
    return f"{tries} {'try' if tries == 1 else 'tries'}{f', {took_s:.0f} s' if tries > 1 else ''}, {ended.last}"


def _waited(ended: Ended) -> str:
    if ended.tries(2) < 2:
        return f"no try, {ended.last}"
    took_s = ended.times[-1] - ended.times[0]
    return f"{'waits for it' if took_s > RETRY_AFTER_S - 0.2 else f'tries after {took_s:.1f} s'}, {ended.last}"


def _refunds(ended: Ended) -> str:
    often = ended.ran.count("refund 7")
    return "one refund" if often == 1 else f"**{often} refunds**"


def _forbidden(ended: Ended) -> str:
    return f"{_refunds(ended)}, {ended.last}"


def _lost_result(ended: Ended) -> str:
    if "1 fault fired" not in ended.stderr:
        return "not tried"
    return _refunds(ended)


def _cut(ended: Ended) -> str:
    if ended.tries(3) > 1 or len(ended.calls) > 3:
        return f"asks again, {ended.last}"
    return "**a part is the answer**" if ended.last == "an answer" else ended.last


def _held_back(ended: Ended) -> str:
    if not ended.said or "error" in ended.said[-1]:
        return ended.last
    answer = ended.said[-1]["answer"]
    asked = ", after asking again" if len(ended.calls) > 3 else ""
    return f"{'**an empty answer**' if answer in ('', None, 'None') else 'an answer'}{asked}"


def _refused(ended: Ended) -> str:
    if not ended.said or "error" in ended.said[-1]:
        return ended.last
    return "it is the answer" if len(ended.calls) <= 3 else "asks again"


def _next_question(ended: Ended) -> str:
    if len(ended.said) < 2:
        return ended.last
    if "would refuse" in ended.stderr:
        return "**refused by the API**"
    return ended.last


RETRY_AFTER_S = 4


class Situation(Struct, frozen=True, kw_only=True):
    """What breaks, the fault that does it, and how to read what came of it.

    Where a program starts again, a model that `is_recorded` asks for its tools again, too.
    """

    title: str
    fault: str
    read: Callable[[Ended], str]
    options: tuple[str, ...] = ()
    is_recorded: bool = False


NOTHING = Situation(title="", fault="", read=str)
SITUATIONS = (
    Situation(title="the API is down", fault="since=2: http_error 503", read=_outage),
    Situation(
        title=f"429, `retry-after: {RETRY_AFTER_S}`",
        fault=f"call=2 attempt=1: http_error 429 headers.retry-after={RETRY_AFTER_S}",
        read=_waited,
    ),
    Situation(title="the result of `refund` is lost", fault="tool={refund} call=1: tool_lost", read=_lost_result),
    Situation(
        title="403 after the refund",
        fault="call={last} attempt=1: http_error 403",
        read=_forbidden,
        is_recorded=True,
    ),
    Situation(
        title="the last answer is cut in its stream",
        fault="call={last} attempt=1: stream_truncate 3 raise=clean",
        read=_cut,
        options=("--streamed",),
    ),
    Situation(title="the last answer is filtered", fault="call={last}: content_filter", read=_held_back),
    Situation(title="the model refuses", fault="call={last}: refusal", read=_refused),
    Situation(
        title="the next question, after an error in the middle",
        fault="call={last}: http_error 400",
        read=_next_question,
        options=("--again",),
    ),
)


class FailureTrial:
    """The runs of one framework."""

    def __init__(self, framework: TriedFramework) -> None:
        self._framework, self._folder = framework, PLACES / f"failures-{framework.file_name}"

    def cells(self) -> dict[str, str]:
        ended = self._run(NOTHING)
        if ended.last != "an answer":
            return {"works": f"{ended.said} {ended.stderr[-800:]}"}
        cells = {"works": "yes"}
        for each in SITUATIONS:
            cells[each.title] = self._cell(each)
            sys.stdout.write(f"{self._framework.title}: {each.title}: {cells[each.title]}\n")
            sys.stdout.flush()
        return cells

    def _cell(self, situation: Situation) -> str:
        if "--again" in situation.options and not self._framework.keeps:
            return "it keeps no conversation"
        if "--streamed" in situation.options and not self._framework.has_streams:
            return "no streams"
        return situation.read(self._run(situation))

    def _fault(self, situation: Situation) -> str:
        last = len(self._framework.says or (1, 2, 3))
        return situation.fault.replace("{refund}", self._framework.calls[1]).replace("{last}", str(last))

    def _run(self, situation: Situation) -> Ended:
        folder, framework = self._folder, self._framework
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "home").mkdir(parents=True)
        for name in ("shop.py", "shop.mjs"):
            shutil.copy(AGENTS / name, folder / name)
        if framework.is_for_node:
            (folder / "node_modules").symlink_to(PACKAGES / "node_modules")
        (folder / "answers.json").write_text(json.dumps({"_version": 2, "any": framework.answers}))
        ledger, trace, report = (folder / name for name in ("ledger", "trace.jsonl", "report.json"))
        replay = ["exec", "--run-tools", "--replay", "answers.json", "-o", f"time_limit={LIMIT_S}"]
        if situation.is_recorded:
            self._offbook([*replay, "--", OFFBOOK, "exec", "--record", "run.json"], ())
            ledger.unlink(missing_ok=True)
            replay[3] = "run.json"
        fault = ["--fault", self._fault(situation)] if situation.fault else []
        ended = self._offbook([*replay, *fault, "--report", report, "-o", f"trace={trace}"], situation.options)
        return Ended(
            said=[json.loads(line) for line in ended.stdout.splitlines() if line.startswith(SAID)],
            ran=ledger.read_text().splitlines() if ledger.exists() else [],
            calls=[each for each in json.loads(report.read_text())["calls"] if each["call"]] if report.exists() else [],
            times=[json.loads(line)["at_s"] for line in trace.read_text().splitlines()] if trace.exists() else [],
            stderr=ended.stderr,
            is_over=ended.returncode != TIMED_OUT,
        )

    def _offbook(self, words: list[Any], options: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        framework = self._framework
        keys = {"GOOGLE_API_KEY": "none"} if framework.name.startswith("google") else {}
        return subprocess.run(
            [OFFBOOK, *words, "--", *framework.words, *options],
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder / "home"), "LANG": "C.UTF-8", **KEYS, **keys},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def try_framework(framework: TriedFramework) -> None:
    """Try a framework, and keep what was seen."""
    SEEN.mkdir(parents=True, exist_ok=True)
    day = datetime.now(tz=UTC).date().isoformat()
    seen = {"version": framework.version, "day": day, "cells": FailureTrial(framework).cells()}
    (SEEN / f"{framework.file_name}.json").write_text(json.dumps(seen, indent=2))


if __name__ == "__main__":
    run_inside(__spec__.name)
    for each in FRAMEWORKS:
        if each.version and (not sys.argv[1:] or each.file_name in sys.argv[1:]):
            try_framework(each)
