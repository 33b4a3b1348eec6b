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
    project.test(f"{wrong}\ndef test_other(offbook):\n    pass\n")
    result = project.run()
    result.assert_outcomes(errors=1, passed=1)
    assert f"test_it.py::test_greets: mark.offbook: {complaint}" in printed_output(result)
    assert "INTERNALERROR" not in printed_output(result)


def test_a_recording_that_no_store_takes_fails_its_test(project):
    project.test('@pytest.mark.offbook(recording="x.db")\ndef test_greets(offbook):\n    pass\n')
    result = project.run("--offbook-record=once")
    result.assert_outcomes(errors=1)
    assert "looks like a database" in printed_output(result)


def test_a_marker_without_the_fixture_does_nothing_but_must_be_right(project):
    project.test('pytestmark = pytest.mark.offbook(provider="openai")\ndef test_it():\n    pass\n')
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "recordings" not in printed_output(result)
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
