"""The tools of our own MCP server: a coding agent lists runs, reads recordings, and has findings explained."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.report.exploration.heatmap import VERDICT_STYLES
from offbook.report.exploration.json_report import load_reported
from offbook.report.exploration.report_input import FindingGroup, ReportInput, group_findings
from offbook.text import shorten
from offbook.tools import ToolDef, tool
from offbook.view.calls import RecordedCalls
from offbook.view.library import FoundRun, RunLibrary, has_words
from offbook.view.summary import load_recording

MAX_RUNS = 200
MAX_CALLS = 50
MAX_CASES = 20
MAX_OUTPUT_CHARS = 4_000
EXPLORE_LIMIT_S = 900
EXPLORATIONS = ".offbook/explorations"
_OFFBOOK = [sys.executable, "-c", "from offbook.cli.main import main; main()"]


class LibraryTools:
    """Tools over the runs of a folder. With `explores`, one of them runs a program with its tools, for real."""

    def __init__(self, folder: Path, *, explores: bool = False) -> None:
        self._folder = folder.resolve()
        self._library = RunLibrary([self._folder])
        self._explores = explores

    def tools(self) -> list[ToolDef]:
        """Return the tools, in the order in which an agent would use them."""
        reading: list[Callable[..., Any]] = [self.list_runs, self.show_recording, self.list_findings]
        reading.append(self.explain_finding)
        listed: list[ToolDef] = [tool(read_only=True)(each) for each in reading]
        return [*listed, tool(self.explore)] if self._explores else listed

    def list_runs(self, search: str = "", limit: int = 20) -> JsonObject:
        """List recordings, explorations, scenario runs and workflow runs, the latest first.

        Args:
            search: Words that a run must have, in its id, kind, verdict or origin, or in its calls.
            limit: How many to list.
        """
        words = search.lower().split()
        found = [run for run in self._library.find() if not run.part_of]
        listed = [(self._library.summary(run), run) for run in found]
        matching = [run for run, files in listed if has_words(run, files, words)]
        return {"total": len(matching), "runs": _plain(matching[: max(0, min(limit, MAX_RUNS))])}

    def show_recording(self, run: str, first_call: int = 1, calls: int = 10) -> JsonObject:
        """Show the calls of a recording as a conversation: what is new in each request, and its answer.

        Args:
            run: The id of a recording, from list_runs.
            first_call: The number of the first call to show, from 1.
            calls: How many calls to show.
        """
        recorded = RecordedCalls(load_recording(self._file(run).path))
        start = max(0, first_call - 1)
        shown = recorded.conversation(start, max(0, min(calls, MAX_CALLS)))
        return {"total": len(recorded), "calls": _plain(shown)}

    def list_findings(self, run: str) -> JsonObject:
        """List the findings of an exploration, the worst first.

        Args:
            run: The id of an exploration, from list_runs.
        """
        return _findings(load_reported(self._file(run).path))

    def explain_finding(self, run: str, finding: int) -> JsonObject:
        """Explain a finding: what its verdict means, the evidence, the cases that show it, and how to reproduce it.

        Args:
            run: The id of an exploration, from list_runs.
            finding: The number of the finding, from list_findings.
        """
        report = load_reported(self._file(run).path)
        groups = group_findings(report.exploration)
        if not 1 <= finding <= len(groups):
            hint = f"use a number from 1 to {len(groups)}" if groups else "this exploration has no findings"
            raise InputError(f"there is no finding {finding}", source=run, hint=hint)
        return _explained(groups[finding - 1], report)

    async def explore(
        self, recording: str, command: list[str], faults: str = "all", declared: str = "", budget: str = "300"
    ) -> JsonObject:
        """Replay a recorded run with each fault at each call, and list what breaks. Runs the program and its tools.

        Args:
            recording: The id of a recording, from list_runs.
            command: The program and its arguments, such as ["python", "agent.py"].
            faults: Which faults to try: all, or names such as timeout,http_error.
            declared: Errors and exit codes with which the program may end, such as APIError,3.
            budget: How many cases to run at most, or for how long: 300, 90s, 5m.
        """
        recorded = self._file(recording)
        report = self._folder / EXPLORATIONS / f"{recorded.path.stem}.json"
        report.parent.mkdir(parents=True, exist_ok=True)
        options = ["--replay", str(recorded.path), "--faults", faults, "--budget", budget]
        options += ["-o", "allow_partial=true"]  # what it returns says how many cases there are
        options += ["-o", f"declared={declared}"] if declared else []
        arguments = ["explore", *options, "--reporter", f"json={report}", "--quiet", "--", *command]
        ended = await asyncio.to_thread(self._run, arguments)
        if ended.returncode not in (0, 1) or not report.exists():
            raise InputError(shorten((ended.stderr or ended.stdout).strip(), MAX_OUTPUT_CHARS), source="explore")
        return {"run": str(report.relative_to(self._folder)), **_findings(load_reported(report))}

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(  # noqa: S603 - the user allowed it
                [*_OFFBOOK, *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=EXPLORE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            hint = "give it a smaller budget, such as 60s"
            raise InputError(f"it took longer than {EXPLORE_LIMIT_S} s", source="explore", hint=hint) from None

    def _file(self, run: str) -> FoundRun:
        found = self._library.run(run)
        if found.shape != "file":
            raise InputError("it is a workflow run; its recordings are files below it", source=run)
        return found


def _findings(report: ReportInput) -> JsonObject:
    exploration = report.exploration
    groups = group_findings(exploration)
    return {
        "subject": exploration.subject,
        "cases": len(exploration.results),
        "left_out": exploration.left,
        "verdicts": exploration.counts,
        "findings": [
            {
                "finding": number,
                "verdict": group.assessment.verdict,
                "reason": group.assessment.reason,
                "title": group.headline,
                "cases": len(group.results),
                "first_case": str(group.first),
            }
            for number, group in enumerate(groups, 1)
        ],
    }


def _explained(group: FindingGroup, report: ReportInput) -> JsonObject:
    first = group.results[0]
    return {
        "verdict": group.assessment.verdict,
        "reason": group.assessment.reason,
        "meaning": VERDICT_STYLES[group.assessment.label].meaning,
        "title": group.headline,
        "evidence": list(group.evidence),
        "reproduce": report.reproduce(group.first),
        "cases": [str(each.case) for each in group.results[:MAX_CASES]],
        "more_cases": max(0, len(group.results) - MAX_CASES),
        "result": _plain(first.run.result),
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
