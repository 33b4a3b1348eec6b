"""offbook.assert_golden: tool calls of a test, compared with what was approved."""

import json

TEST = """
import httpx2
from offbook import ToolCall

def test_it(offbook):
    offbook.assert_golden([ToolCall("find", {"id": 7}), ToolCall("refund", {"amount": AMOUNT})])
    assert not FAILS
"""


def written(amount, *, fails=False):
    return TEST.replace("AMOUNT", str(amount)).replace("FAILS", str(fails))


def test_calls_are_approved_by_an_option_once_their_test_passes(project):
    golden = project.folder / "recordings/test_it/test_it.golden"
    project.test(written(10))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no tool calls were approved yet*", "*pytest test_it.py::test_it --offbook-approve"])
    project.test(written(10, fails=True))
    project.run("--offbook-approve").assert_outcomes(failed=1)
    assert not golden.exists()
    project.test(written(10))
    result = project.run("--offbook-approve")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 golden trajectory approved"])
    first = golden.read_bytes()
    project.run().assert_outcomes(passed=1)
    project.run("--offbook-approve").assert_outcomes(passed=1)
    assert golden.read_bytes() == first


def test_other_calls_fail_with_the_difference_until_they_are_a_variant(project):
    golden = project.folder / "recordings/test_it/test_it.golden"
    project.test(written(10))
    project.run("--offbook-approve").assert_outcomes(passed=1)
    project.test(written(12))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not as approved: arguments differ: call 2, refund: amount: expected 10, got 12*"])
    project.run("--offbook-approve").assert_outcomes(passed=1)
    assert len(json.loads(golden.read_text())["variants"]) == 2
    project.run().assert_outcomes(passed=1)


def test_the_calls_of_http_clients_are_known_and_those_of_nobody_are_not(project):
    answer = {"tool_calls": [{"id": "c", "name": "refund", "arguments": {"amount": 10}}], "model": "m"}
    project.write("recordings/test_it/test_it.json", json.dumps({"_version": 2, "any": answer}))
    project.test(
        "def test_it(offbook):\n"
        '    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}\n'
        "    with offbook.sync_http_client() as client:\n"
        '        client.post("https://api.openai.com/v1/chat/completions", json=asked)\n'
        '    offbook.assert_golden(name="all of it")\n'
        "def test_none(offbook):\n"
        "    offbook.assert_golden()\n"
    )
    result = project.run("--offbook-approve")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the tool calls of the test are not known*"])
    golden = json.loads((project.folder / "recordings/test_it/test_it.all-of-it.golden").read_text())
    assert golden["variants"][0]["turns"] == [[{"tool": "refund", "args": {"amount": 10}}]]
