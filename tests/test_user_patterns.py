"""Patterns that users write end in bounded time, wherever they are from."""

import signal
import subprocess
import sys
import time
from subprocess import PIPE

import pytest
import regex

from offbook import InputError, NormaliseRules
from offbook.errors import ToolArgumentsError
from offbook.recording.match.fingerprint import apply_rules
from offbook.recording.redact.redactor import Redactor
from offbook.scenarios.real_tool import SchemaResultCheck
from offbook.scenarios.trajectory.arguments import matches
from offbook.text import UserPattern, compile_pattern
from offbook.tools.schema_parameters import SchemaParameters

BAD = "(a|aa)+$"
LONG = "a" * 60 + "!"
UPPER = r"\p{Lu}"  # not in the syntax of `re`: whoever takes it searches in bounded time
NEARLY_ADA = "(?:Ada){e<=1}"  # literal braces for `re`
SEARCH = """
import regex
from offbook.text import UserPattern
pattern = UserPattern(regex.compile("(a|aa)+$"), allowed_s=60.0)
print("searching", flush=True)
pattern.is_in("a" * 60 + "!")
"""


def slow(text=BAD, allowed_s=0.01):
    return UserPattern(regex.compile(text), allowed_s=allowed_s)


@pytest.mark.parametrize("search", [slow().is_in, slow().spans, lambda text: slow().sub("x", text)])
def test_a_search_that_takes_too_long_is_an_error_that_says_why(search):
    with pytest.raises(InputError, match=r"takes too much time\n  hint: do not repeat"):
        search(LONG)


def test_many_searches_share_the_time_that_one_may_take():
    pattern = slow(allowed_s=0.05)
    started_s = time.thread_time()
    for _ in range(100):
        with pytest.raises(InputError):
            pattern.is_in(LONG)
    assert time.thread_time() - started_s < 1.0


@pytest.mark.parametrize("text", ["(", "a" * 10_001, "(" * 5_000 + ")" * 5_000, "a{99999999999999999999}"])
def test_what_is_not_a_pattern_is_refused_with_its_place(text):
    with pytest.raises(InputError, match=r"^file: mask: invalid pattern "):
        compile_pattern(text, source="file", place="mask")


def test_masks_take_bounded_patterns():
    assert apply_rules({"content": "an Order"}, NormaliseRules(mask=(UPPER,)))["content"] != "an Order"


def test_patterns_of_secrets_are_bounded():
    assert Redactor(patterns=(UPPER,)).text("an Order") == "an <redacted>rder"


def test_expected_arguments_take_bounded_patterns():
    assert matches(UPPER).mismatch_reason("an Order") == ""
    assert matches(UPPER).mismatch_reason("an order") == "no match in it"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"name": {"type": "string", "pattern": NEARLY_ADA}}}, {"name": "ada"}, {"name": "Bob"}),
        ({"patternProperties": {NEARLY_ADA: {}}, "additionalProperties": False}, {"ada": 1}, {"Bob": 1}),
        ({"patternProperties": {NEARLY_ADA: {}}, "additionalProperties": {"type": "null"}}, {"ada": 1}, {"Bob": 1}),
        ({"patternProperties": {NEARLY_ADA: {"type": "integer"}}}, {"Bob": "1"}, {"ada": "1"}),
    ],
)
def test_schemas_take_bounded_patterns(schema, good, bad):
    parameters = SchemaParameters({"type": "object", **schema}, tool="look_up")
    results = SchemaResultCheck(schema, tool="look_up")
    parameters.check(good)
    assert results.problems(good) == []
    with pytest.raises(ToolArgumentsError, match=r"Bob|name|ada"):
        parameters.check(bad)
    assert results.problems(bad)


def test_a_signal_ends_a_search_at_once():
    numbers = (signal.SIGTERM, signal.SIGINT)
    programs = [subprocess.Popen([sys.executable, "-c", SEARCH], stdout=PIPE, stderr=PIPE) for _ in numbers]
    for program, number in zip(programs, numbers, strict=True):
        with program:
            program.stdout.readline()
            program.send_signal(number)
            started_s = time.monotonic()
            program.communicate(timeout=30.0)
            assert time.monotonic() - started_s < 5.0
            assert program.returncode == -number
