"""The marker `offbook`, and what is wrong with it."""

import pytest

from tests.pytest_plugin.conftest import printed_output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('recordin="x.json"', "unknown argument 'recordin'\n  hint: did you mean 'recording'?"),
        (
            '"x.json"',
            "it takes no positional arguments\n  hint: name it: @pytest.mark.offbook(recording='x.json')",
        ),
        ("recording=5", "recording: expected `str | null`, got `int`\n  hint: given: 5"),
        ('strict="no"', "strict: expected `bool`, got `str`\n  hint: given: 'no'"),
        (
            'record="sometimes"',
            "record: invalid enum value 'sometimes'\n  hint: one of: none, once, new, all, append, fresh",
        ),
        ('unused="eror"', "unused: invalid enum value 'eror'\n  hint: one of: report, error"),
        ('provider="opanai"', "provider: there is no 'opanai'\n  hint: did you mean 'openai'?"),
    ],
)
def test_a_wrong_marker_fails_its_test_and_no_other(project, arguments, complaint):
    wrong = f"@pytest.mark.offbook({arguments})\ndef test_greets(offbook):\n    pass\n"
    project.test(f"{wrong}\ndef test_other():\n    pass\n")
    result = project.run()
    result.assert_outcomes(errors=1, passed=1)
    assert f"test_it.py::test_greets: mark.offbook: {complaint}" in printed_output(result)
    assert "INTERNALERROR" not in printed_output(result)


def test_a_recording_that_no_store_takes_fails_its_test(project):
    project.test('@pytest.mark.offbook(recording="x.db")\ndef test_greets(offbook):\n    pass\n')
    result = project.run("--offbook-record=once")
    result.assert_outcomes(errors=1)
    assert "looks like a database" in printed_output(result)


ASKS = """
import httpx2

def ask(message="Hi"):
    asked = {"model": "m", "messages": [{"role": "user", "content": message}]}
    return httpx2.post("https://api.openai.com/v1/chat/completions", json=asked)
"""


class TestWithoutTheFixture:
    """A marked test that does not take the fixture."""

    def test_its_clients_are_answered_from_the_recording(self, project):
        project.write("bot.json", '{"_version": 2, "a": {"content": "Hello!"}}')
        body = 'assert ask().json()["choices"][0]["message"]["content"] == "Hello!"'
        project.test(f'{ASKS}\n@pytest.mark.offbook(recording="bot.json")\ndef test_it():\n    {body}\n')
        result = project.run()
        result.assert_outcomes(passed=1)
        assert "1 call served from recordings" in printed_output(result)

    def test_a_call_without_a_recording_fails_even_if_nobody_looks_at_the_answer(self, project):
        project.test(f"{ASKS}\n@pytest.mark.offbook\ndef test_it():\n    ask()\n")
        result = project.run()
        result.assert_outcomes(failed=1)
        assert "test_it.json: no such recording" in printed_output(result)
        assert "hint: record it: pytest test_it.py::test_it --offbook-record=once" in printed_output(result)

    @pytest.mark.parametrize("option", [(), ("--offbook-record=once",)])
    def test_one_that_is_marked_itself_and_makes_no_call_is_an_error(self, project, option):
        project.test("@pytest.mark.offbook\ndef test_it():\n    pass\n")
        result = project.run(*option)
        result.assert_outcomes(passed=1, errors=1)
        assert "makes no call that the marker answers, so nothing is replayed" in printed_output(result)

    def test_one_in_a_marked_module_that_makes_no_call_passes_and_records_nothing(self, project):
        project.test('pytestmark = pytest.mark.offbook(provider="openai")\ndef test_it():\n    pass\n')
        project.run("--offbook-record=once").assert_outcomes(passed=1)
        project.run().assert_outcomes(passed=1)
        assert not (project.folder / "recordings").exists()

    def test_the_recording_of_something_else_is_not_to_be_replaced_unasked(self, project):
        project.write("bot.json", '{"_version": 2, "a": {"content": "Hello!", "request_hash": "0"}}')
        project.test(f'{ASKS}\n@pytest.mark.offbook(recording="bot.json")\ndef test_it():\n    ask()\n')
        result = project.run()
        result.assert_outcomes(failed=1)
        assert "hint: is bot.json the recording of this test? If it is, record the test again" in printed_output(result)

    def test_a_wrong_marker_is_an_error(self, project):
        project.test("pytestmark = pytest.mark.offbook(prvider=1)\ndef test_it():\n    pass\n")
        project.run().assert_outcomes(errors=1)


def test_the_nearest_marker_counts_for_each_argument(project):
    project.test(
        """
from pathlib import Path
pytestmark = pytest.mark.offbook(recording="module.json", strict=False)

@pytest.mark.offbook(recording=Path("class.json"))
class TestShop:
    def test_greets(self, offbook):
        assert Path(offbook.recording).name == "class.json"
        assert greet(offbook) == "Mock response"
"""
    )
    project.write("class.json", '{"_version": 2}')
    project.run().assert_outcomes(passed=1)


def test_the_marker_and_the_options_are_documented(project):
    assert "@pytest.mark.offbook(recording=None, strict=True" in printed_output(project.run("--markers"))
    helped = printed_output(project.run("--help"))
    for option in ("record={none,once,new,all,append,fresh}", "keep-failed", "strict-unused", "report-unused"):
        assert f"--offbook-{option}" in helped


def test_an_unknown_mode_is_a_usage_error(project):
    result = project.run("--offbook-record=sometimes")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "sometimes" in printed_output(result)
