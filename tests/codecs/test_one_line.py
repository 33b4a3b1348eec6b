"""JSON on one line, for clients that know more line breaks than JSON does."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.one_line import on_one_line

breaks = st.sampled_from(["\u0085", "\u2028", "\u2029", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])


@given(st.lists(st.text() | breaks).map("".join))
def test_json_stays_the_same_and_is_one_line_however_lines_are_told(text):
    line = on_one_line(orjson.dumps({"text": text}))
    assert orjson.loads(line) == {"text": text}
    assert len(line.decode().splitlines()) == 1
