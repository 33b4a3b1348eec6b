"""What programs say of the errors that end them."""

import pytest

from offbook.explore.last_words import last_words

NODE = """file:///agent.mjs:3
  throw new TypeError("no")
        ^

TypeError: no
    at file:///agent.mjs:3:9

Node.js v22.1.0
"""
PYTHON = """Traceback (most recent call last):
  File "agent.py", line 3, in <module>
    raise openai.APIConnectionError
openai.APIConnectionError: Connection error.
"""


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (PYTHON, "openai.APIConnectionError: Connection error."),
        (NODE, "TypeError: no"),
        ("warning\npanic: all is lost\n\n", "panic: all is lost"),
        ("", ""),
    ],
)
def test_the_line_that_names_the_error_is_told(stderr, words):
    assert last_words(stderr) == words


def test_a_long_line_is_cut():
    assert len(last_words("x" * 10_000)) == 500
