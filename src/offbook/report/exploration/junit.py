"""An exploration as JUnit XML."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from offbook.explore.runner import CaseResult, Exploration
from offbook.report.exploration.report_input import ReportInput
from offbook.report.scenarios.junit import NOT_XML
from offbook.report.text import one_line

MAX_MESSAGE_CHARS = 300
CUT_OFF = "the exploration was cut off: this is what had ended by then"


def exploration_junit(report_input: ReportInput) -> bytes:
    """The exploration as JUnit XML: a test case for each of its cases.

    A finding is a failure. A case that diverged is skipped, since nothing is known of it. What was cut off has an
    error of its own. Times are those of the runs by their own clocks.
    """
    root = Element("testsuites", name="offbook explore")
    suite = SubElement(root, "testsuite", name=_clean_xml(report_input.exploration.subject))
    for explored in report_input.exploration.results:
        _add_case(suite, explored, report_input)
    if not report_input.is_complete:
        case = SubElement(suite, "testcase", classname="offbook", name="the exploration is complete", time="0.000")
        SubElement(case, "error", type="cut off", message=CUT_OFF)
    for element in (root, suite):
        _count(element, suite, report_input.exploration)
    indent(root)
    xml: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _add_case(suite: Element, explored: CaseResult, report_input: ReportInput) -> None:
    name = _clean_xml(f"{explored.case.id} {explored.case}")
    classname = _clean_xml(report_input.exploration.subject)
    case = SubElement(suite, "testcase", classname=classname, name=name, time=f"{explored.run.took_s:.3f}")
    evidence = "\n".join(explored.assessment.evidence)
    message = _clean_xml(one_line(evidence, MAX_MESSAGE_CHARS))
    told = _clean_xml(f"{explored.verdict}: {evidence}\n{report_input.reproduce(explored.case)}")
    if explored.is_finding:
        SubElement(case, "failure", type=explored.verdict, message=message).text = told
    elif explored.verdict == "diverged":
        SubElement(case, "skipped", message=f"diverged: {message}")
    SubElement(case, "system-out").text = told


def _count(element: Element, suite: Element, exploration: Exploration) -> None:
    element.set("tests", str(len(suite.findall("testcase"))))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    element.set("time", f"{sum(each.run.took_s for each in exploration.results):.3f}")


def _clean_xml(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return NOT_XML.sub("", text)
