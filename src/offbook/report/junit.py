"""What JUnit reports of scenarios and of explorations share: clean text, counts, and the XML document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean_xml(text: str) -> str:
    """Return the text without the characters that XML does not allow."""
    return _NOT_XML.sub("", text)


def add_incomplete(suite: Element, what: str) -> Element:
    """Add and return a test case with an error: `what`, a run or an exploration, was interrupted."""
    case = SubElement(suite, "testcase", classname="offbook", name=f"the {what} is complete", time="0.000")
    SubElement(case, "error", type="interrupted", message=f"the {what} was interrupted: this report is partial")
    return case


def count_cases(element: Element, cases: Sequence[Element], *, latency_s: float) -> None:
    """Set how many test cases an element has, how many of them failed or were skipped, and the time."""
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
