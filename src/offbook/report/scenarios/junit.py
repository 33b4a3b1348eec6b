"""A scenario run as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from offbook.report.scenarios.failures import failure_notes, parse_location
from offbook.report.scenarios.figures import figures_of
from offbook.scenarios.result import ScenarioResult, SuiteResult

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(result: SuiteResult) -> bytes:
    """The run as JUnit XML: a suite for each file and agent, a case for each scenario.

    A scenario in which something broke has an error, one that did not pass has a failure. Cost and tokens are
    properties of the suite, and the output of the case. A run that was cut off has an error of its own.
    """
    root = Element("testsuites", name="offbook")
    for (file, agent), scenarios in _suites(result).items():
        _add_suite(root, file, agent, scenarios)
    if not result.is_complete:
        _add_incomplete(root)
    _count(root, root.findall("testsuite/testcase"), latency_s=result.latency_s)
    indent(root)
    xml: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _suites(result: SuiteResult) -> dict[tuple[str, str], list[ScenarioResult]]:
    suites: dict[tuple[str, str], list[ScenarioResult]] = {}
    for scenario in result.scenarios:
        suites.setdefault((parse_location(scenario.source).file, scenario.agent), []).append(scenario)
    return suites


def _add_suite(root: Element, file: str, agent: str, scenarios: Sequence[ScenarioResult]) -> None:
    name = " ".join(part for part in (file, f"[{agent}]" if agent else "") if part) or "scenarios"
    suite = SubElement(root, "testsuite", name=_clean_xml(name))
    figures = [figures_of(scenario) for scenario in scenarios]
    properties = SubElement(suite, "properties")
    told = {
        "agent": agent,
        "cost_usd": f"{sum(each.cost_usd for each in figures):.6f}",
        "tokens": str(sum(each.tokens for each in figures)),
    }
    for key, value in told.items():
        SubElement(properties, "property", name=key, value=_clean_xml(value))
    for scenario in scenarios:
        _add_case(suite, scenario, classname=name)
    _count(suite, suite.findall("testcase"), latency_s=sum(each.latency_s for each in figures))


def _add_case(suite: Element, scenario: ScenarioResult, *, classname: str) -> None:
    figures, notes = figures_of(scenario), list(failure_notes(scenario))
    case = SubElement(
        suite,
        "testcase",
        classname=_clean_xml(classname),
        name=_clean_xml(scenario.name),
        time=f"{figures.latency_s:.3f}",
    )
    if notes:
        chief = next((note for note in notes if note.is_error), notes[0])
        tag = "error" if chief.is_error else "failure"
        problem = SubElement(case, tag, type=chief.failure.kind, message=_clean_xml(chief.headline))
        problem.text = _clean_xml("\n".join(line for note in notes for line in (note.headline, *note.detail)))
    told = [f"{figures.passed_of_runs} conversations passed", figures.rate, *figures.taken]
    SubElement(case, "system-out").text = ", ".join(part for part in told if part)


def _add_incomplete(root: Element) -> None:
    suite = SubElement(root, "testsuite", name="offbook")
    case = SubElement(suite, "testcase", classname="offbook", name="the run is complete", time="0.000")
    SubElement(case, "error", type="cut off", message="the run was cut off: this is what had ended by then")
    _count(suite, [case], latency_s=0.0)


def _count(element: Element, cases: Sequence[Element], *, latency_s: float) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    element.set("errors", str(sum(case.find("error") is not None for case in cases)))
    element.set("time", f"{latency_s:.3f}")


def _clean_xml(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return NOT_XML.sub("", text)
