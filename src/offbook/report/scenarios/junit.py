"""A scenario run as JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from offbook.report.junit import add_incomplete, clean_xml, count_cases, render_xml
from offbook.report.scenarios.failures import failure_notes, parse_location
from offbook.report.scenarios.figures import figures_of
from offbook.scenarios.result import ScenarioResult, SuiteResult


def junit_report(result: SuiteResult) -> bytes:
    """Return the run as JUnit XML: a suite for each file and agent, a case for each scenario.

    A scenario that could not be run has an error, one that did not pass has a failure. Cost and tokens are properties
    of the suite and output of the case. An interrupted run has an error of its own.
    """
    root = Element("testsuites", name="offbook")
    for (file, agent), scenarios in _suites(result).items():
        _add_suite(root, file, agent, scenarios)
    if not result.is_complete:
        suite = SubElement(root, "testsuite", name="offbook")
        count_cases(suite, [add_incomplete(suite, "run")], latency_s=0.0)
    count_cases(root, root.findall("testsuite/testcase"), latency_s=result.latency_s)
    return render_xml(root)


def _suites(result: SuiteResult) -> dict[tuple[str, str], list[ScenarioResult]]:
    suites: dict[tuple[str, str], list[ScenarioResult]] = {}
    for scenario in result.scenarios:
        suites.setdefault((parse_location(scenario.source).file, scenario.agent), []).append(scenario)
    return suites


def _add_suite(root: Element, file: str, agent: str, scenarios: Sequence[ScenarioResult]) -> None:
    name = " ".join(part for part in (file, f"[{agent}]" if agent else "") if part) or "scenarios"
    suite = SubElement(root, "testsuite", name=clean_xml(name))
    figures = [figures_of(scenario) for scenario in scenarios]
    properties = SubElement(suite, "properties")
    values = {
        "agent": agent,
        "cost_usd": f"{sum(each.cost_usd for each in figures):.6f}",
        "tokens": str(sum(each.tokens for each in figures)),
    }
    for key, value in values.items():
        SubElement(properties, "property", name=key, value=clean_xml(value))
    for scenario in scenarios:
        _add_case(suite, scenario, classname=name)
    count_cases(suite, suite.findall("testcase"), latency_s=sum(each.latency_s for each in figures))


def _add_case(suite: Element, scenario: ScenarioResult, *, classname: str) -> None:
    figures, notes = figures_of(scenario), list(failure_notes(scenario))
    case = SubElement(
        suite,
        "testcase",
        classname=clean_xml(classname),
        name=clean_xml(scenario.name),
        time=f"{figures.latency_s:.3f}",
    )
    if notes:
        chief = next((note for note in notes if note.is_error), notes[0])
        tag = "error" if chief.is_error else "failure"
        problem = SubElement(case, tag, type=chief.failure.kind, message=clean_xml(chief.headline))
        problem.text = clean_xml("\n".join(line for note in notes for line in (note.headline, *note.detail)))
    output = [f"{figures.passed_of_runs} conversations passed", figures.rate, *figures.usage]
    SubElement(case, "system-out").text = ", ".join(part for part in output if part)
