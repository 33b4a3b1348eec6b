"""Scenario runs and explorations as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from offbook.explore.explorer import CaseResult
from offbook.explore.schedule import LeftOutFault
from offbook.recording.redact.rules import mask_shown
from offbook.report.exploration.report_input import ReportInput, left_out_by_group
from offbook.report.reporter import one_line
from offbook.report.scenarios.figures import failure_notes, figures_of, parse_location
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.text import pluralize

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean_xml(text: str) -> str:
    """Return the text without secrets, and without the characters that XML does not allow."""
    return _NOT_XML.sub("", mask_shown(text))


def add_incomplete(suite: Element, what: str) -> Element:
    """Add and return a test case with an error: `what`, a run or an exploration, ended early."""
    case = SubElement(suite, "testcase", classname="offbook", name=f"the {what} is complete", time="0.000")
    SubElement(case, "error", type="incomplete", message=f"the {what} ended early: this report is partial")
    return case


def count_cases(element: Element, cases: Sequence[Element], *, latency_s: float) -> None:
    """Set an element's counts of test cases, failures and skips, and its time."""
    element.set("tests", str(len(cases)))
    counted = {"failures": "failure", "errors": "error"}
    if element.tag == "testsuite":  # CI servers refuse it elsewhere
        counted["skipped"] = "skipped"
    for attribute, tag in counted.items():
        element.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{latency_s:.3f}")


def render_xml(root: Element) -> bytes:
    """Return the indented document."""
    indent(root)
    xml: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def junit_report(result: SuiteResult) -> bytes:
    """Return the run as JUnit XML: a suite for each file and agent, a case for each scenario.

    A scenario that could not run has an error, one that did not pass has a failure. Cost and tokens are properties of
    the suite and output of the case. A run that ended early has an extra error.
    """
    root = Element("testsuites", name="offbook")
    suites: dict[tuple[str, str], list[ScenarioResult]] = {}
    for scenario in result.scenarios:
        suites.setdefault((parse_location(scenario.source).file, scenario.agent), []).append(scenario)
    for (file, agent), scenarios in suites.items():
        _add_suite(root, file, agent, scenarios)
    if not result.is_complete:
        suite = SubElement(root, "testsuite", name="offbook")
        count_cases(suite, [add_incomplete(suite, "run")], latency_s=0.0)
    count_cases(root, root.findall("testsuite/testcase"), latency_s=result.latency_s)
    return render_xml(root)


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


MAX_EVIDENCE_CHARS = 300


def exploration_junit(report_input: ReportInput) -> bytes:
    """Return the exploration as JUnit XML: a test case for each of its cases.

    A finding is a failure. An undecided case is skipped, and so are the cases that a budget left out, one entry for
    each fault; the suite's output counts them by group. An exploration that ended early has an extra error. Times are
    those of the runs' own clocks.
    """
    root = Element("testsuites", name="offbook explore")
    suite = SubElement(root, "testsuite", name=clean_xml(report_input.exploration.subject))
    for explored in report_input.exploration.results:
        _add_explored_case(suite, explored, report_input)
    for each in report_input.exploration.left_out:
        _add_left_out(suite, each)
    if not report_input.is_complete:
        add_incomplete(suite, "exploration")
    if left := left_out_by_group(report_input.exploration):
        SubElement(suite, "system-out").text = clean_xml(f"left out: {left}")
    latency_s = sum(each.run.took_s for each in report_input.exploration.results)
    for element in (root, suite):
        count_cases(element, suite.findall("testcase"), latency_s=latency_s)
    return render_xml(root)


def _add_left_out(suite: Element, left: LeftOutFault) -> None:
    case = SubElement(suite, "testcase", classname="offbook", name=clean_xml(f"left out: {left.fault}"), time="0.000")
    message = f"the budget left out {pluralize(left.cases, 'case')} of {left.fault}; {left.tried:,} tried"
    SubElement(case, "skipped", message=clean_xml(message))


def _add_explored_case(suite: Element, explored: CaseResult, report_input: ReportInput) -> None:
    name = clean_xml(f"{explored.case.id} {explored.case}")
    classname = clean_xml(report_input.exploration.subject)
    case = SubElement(suite, "testcase", classname=classname, name=name, time=f"{explored.run.took_s:.3f}")
    evidence = "\n".join(explored.assessment.evidence)
    message = clean_xml(one_line(evidence, MAX_EVIDENCE_CHARS))
    output = clean_xml(f"{explored.title}: {evidence}\n{report_input.reproduce(explored.case)}")
    if explored.is_finding:
        SubElement(case, "failure", type=explored.title, message=message).text = output
    elif explored.verdict == "undecided":
        SubElement(case, "skipped", message=f"undecided: {message}")
    SubElement(case, "system-out").text = output
