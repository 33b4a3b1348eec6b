"""The fired faults of a run, the unfired lines of its plan with the reasons, and its calls."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.errors import RecordingMismatchError
from offbook.faults.order import OrderFault
from offbook.faults.site import At, PlannedFault, Site, Step, ToolSite, mark_of
from offbook.text import did_you_mean, pluralize


class ReachedSites:
    """The sites that a run has reached, which explain unfired faults."""

    def __init__(self) -> None:
        self._attempts: dict[Step | None, dict[int, int]] = {None: {}}
        """The attempts of each call by its number: of the run under None, and of each step."""
        self._tools: dict[str, int] = {}

    def add(self, site: Site | ToolSite) -> None:
        """Add a site. A step's and a tool's calls are numbered from 1."""
        if isinstance(site, ToolSite):
            self._tools[site.tool] = max(site.call, self._tools.get(site.tool, 0))
            return
        self._attempts[None][site.overall] = site.attempt
        self._attempts.setdefault((site.workflow, site.step_id), {})[site.call] = site.attempt

    def update(self, others: ReachedSites) -> None:
        """Add the sites of another run of the plan: of calls with one number, that with more attempts counts."""
        for step, calls in others._attempts.items():
            own = self._attempts.setdefault(step, {})
            own.update({call: max(attempt, own.get(call, 0)) for call, attempt in calls.items()})
        self._tools.update({tool: max(calls, self._tools.get(tool, 0)) for tool, calls in others._tools.items()})

    def has(self, at: At) -> bool:
        """Return whether a call has reached these sites, in any attempt."""
        number = at.call or at.since
        if at.tool is not None:
            return self._tools.get(at.tool, 0) >= (number or 1)
        calls = self._calls_of(at)
        return bool(calls) and (number is None or number in calls)

    def explain(self, at: At) -> str:
        """Return why no fault fired at these sites: the number of calls, and the nearest place; or nothing."""
        if at.tool is not None:
            return self._explain_tool(at)
        calls = self._calls_of(at)
        whose = "the run" if at.step_id is None else f"step {at.step_id!r}"
        if not calls:
            steps = sorted({step[1] for step in self._attempts if step is not None and step[1] is not None})
            is_other = at.step_id is not None and at.step_id not in steps and bool(steps)
            hint = did_you_mean(at.step_id or "", steps, kind="steps with calls") if is_other else ""
            return "; ".join(filter(None, [f"{whose} made no model call", hint]))
        number, made = at.call or at.since, f"{whose} made {pluralize(len(calls), 'model call')}"
        if number is not None and number not in calls:
            return f"{made}; the last place is '{replace(at, call=max(calls), since=None, attempt=None)}'"
        attempts = max(calls.values()) if number is None or at.since else calls[number]
        if at.attempt is not None and at.attempt > attempts:
            which = "no call had more than" if number is None or at.since else f"call {number} had"
            return f"{which} {pluralize(attempts, 'attempt')}; the last place is '{replace(at, attempt=attempts)}'"
        return made

    def _calls_of(self, at: At) -> dict[int, int]:
        if at.step_id is None:
            return self._attempts[None]
        steps = [step for step in self._attempts if step is not None and step[1] == at.step_id]
        return {
            call: attempts
            for step in steps
            if at.workflow in (None, step[0])
            for call, attempts in self._attempts[step].items()
        }

    def _explain_tool(self, at: At) -> str:
        assert at.tool is not None
        made = self._tools.get(at.tool, 0)
        if not made:
            hint = did_you_mean(at.tool, self._tools, kind="tools called") if self._tools else ""
            return "; ".join(filter(None, [f"{at.tool} was never called", hint]))
        last = replace(at, call=made, since=None)
        return f"{at.tool} was called {'once' if made == 1 else f'{made:,} times'}; the last place is '{last}'"


class FaultLog:
    """The fired faults: `fired` lists them in order, as lines of a plan. Injectors may share one log.

    `fired_lines` are the fired lines of the plan. `marks` are the marks of faults' texts in an exploration, each once.
    `reached` are the sites of all calls.
    """

    def __init__(self) -> None:
        self.fired: list[PlannedFault] = []
        self.marks: list[str] = []
        self.reached = ReachedSites()
        self.fired_lines: list[PlannedFault] = []
        self._started_s: float | None = None

    def elapsed_s(self, now_s: float) -> float:
        """Return the time since the first call of the run, which this one may be."""
        self._started_s = now_s if self._started_s is None else self._started_s
        return now_s - self._started_s

    def note(self, fired: PlannedFault, line: PlannedFault | None, *, marked: bool = False) -> str:
        """Add a fired fault, and its line of the plan unless it was chaos.

        Returns the mark for the fault's texts, or "" unless it is `marked`.
        """
        self.fired.append(fired)
        if line is not None and line not in self.fired_lines:
            self.fired_lines.append(line)
        mark = mark_of(line or fired) if marked else ""
        if mark and mark not in self.marks:
            self.marks.append(mark)
        return mark

    def take_back(self, fired: PlannedFault, line: PlannedFault | None) -> None:
        """Remove a fault that has changed nothing."""
        self.fired.remove(fired)
        if line in self.fired_lines:
            self.fired_lines.remove(line)

    def update(self, others: FaultLog) -> None:
        """Add the faults and the sites of other calls."""
        self.fired += others.fired
        self.fired_lines += [line for line in others.fired_lines if line not in self.fired_lines]
        self.reached.update(others.reached)

    def explain(self, error: RecordingMismatchError, site: Site | None = None) -> RecordingMismatchError:
        """Add to an error the faults that fired at earlier calls, and may have caused the missing answer.

        It remains the same error: a replay has noted it as a miss, which is then reported with these faults.
        """
        # A later attempt sends the request of its call again, whatever the attempts before it got.
        own = None if site is None else replace(At.of(site), attempt=None)
        causes = [str(planned) for planned in self.fired if replace(planned.at, attempt=None) != own]
        return error.attribute(causes) if causes else error


def why_unfired(line: PlannedFault, reached: ReachedSites) -> str:
    """Return why a planned fault never fired: it changed nothing at its call, or there was no such call."""
    unmet = line.fault.unmet if isinstance(line.fault, OrderFault) and reached.has(line.at) else ""
    return unmet or reached.explain(line.at)


def describe_unfired(line: PlannedFault, reached: ReachedSites) -> str:
    """Return that a planned fault never fired, and why."""
    return ": ".join(filter(None, [f"{str(line)!r} never fired", why_unfired(line, reached)]))
