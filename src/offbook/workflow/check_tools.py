"""Checks of tools: that those a step names are there, and that an agent's rules are about its own."""

from __future__ import annotations

from collections.abc import Iterator

from offbook.recording.keys import shown
from offbook.wording import did_you_mean
from offbook.workflow.level import Level
from offbook.workflow.references import Written, tools_of
from offbook.workflow.report import Report
from offbook.workflow.step_definition import AgentStep


def check_tools(level: Level, report: Report) -> None:
    """Note tools that the workflow does not have, and rules about tools that the agent does not have."""
    for path, step in level.placed():
        for named in tools_of(step):
            if named.text not in level.tools:
                hint = did_you_mean(named.text, level.tools, kind="tools")
                report.add((*path, *named.place), f"there is no tool {shown(named.text)}", hint=hint)
        if isinstance(step, AgentStep):
            own = {*step.tools, *step.terminal_tool}
            for named in _ruled(step):
                if named.text not in own:
                    reason = f"{shown(named.text)} is none of the tools of this step"
                    report.add((*path, *named.place), reason, hint=did_you_mean(named.text, own, kind="its tools"))


def _ruled(step: AgentStep) -> Iterator[Written]:
    """Every tool that a rule of an agent names."""
    for at, name in enumerate(step.required_steps):
        yield Written(("required_steps", at), name)
    for tool, prerequisites in step.prerequisites.items():
        yield Written(("prerequisites", tool), tool)
        for at, prerequisite in enumerate(prerequisites):
            yield Written(("prerequisites", tool, at), prerequisite.tool)
