"""An exploration as JUnit XML."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from offbook.explore.explorer import CaseResult
from offbook.report.exploration.report_input import ReportInput
from offbook.report.junit import add_incomplete, clean_xml, count_cases, render_xml
from offbook.report.text import one_line

MAX_MESSAGE_CHARS = 300


def exploration_junit(report_input: ReportInput) -> bytes:
    """Return the exploration as JUnit XML: a test case for each of its cases.

    A finding is a failure. A case that is undecided is skipped. An interrupted exploration
    has an error of its own. Times are those of the runs by their own clocks.
    """
    root = Element("testsuites", name="offbook explore")
    suite = SubElement(root, "testsuite", name=clean_xml(report_input.exploration.subject))
    for explored in report_input.exploration.results:
        _add_case(suite, explored, report_input)
    if not report_input.is_complete:
        add_incomplete(suite, "exploration")
    latency_s = sum(each.run.took_s for each in report_input.exploration.results)
    for element in (root, suite):
        count_cases(element, suite.findall("testcase"), latency_s=latency_s)
    return render_xml(root)


def _add_case(suite: Element, explored: CaseResult, report_input: ReportInput) -> None:
    name = clean_xml(f"{explored.case.id} {explored.case}")
    classname = clean_xml(report_input.exploration.subject)
    case = SubElement(suite, "testcase", classname=classname, name=name, time=f"{explored.run.took_s:.3f}")
    evidence = "\n".join(explored.assessment.evidence)
    message = clean_xml(one_line(evidence, MAX_MESSAGE_CHARS))
    output = clean_xml(f"{explored.verdict}: {evidence}\n{report_input.reproduce(explored.case)}")
    if explored.is_finding:
        SubElement(case, "failure", type=explored.verdict, message=message).text = output
    elif explored.verdict == "undecided":
        SubElement(case, "skipped", message=f"undecided: {message}")
    SubElement(case, "system-out").text = output
