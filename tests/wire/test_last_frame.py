"""The frames behind which SDKs stop reading are known."""

import orjson
import pytest

from offbook.codecs.catalog import CODECS
from offbook.messages import Response, TextDelta
from offbook.wire.last_frame import tells_end

TEXT = '"done": true, "type":"message_stop"\ndata: [DONE]'


@pytest.mark.parametrize("protocol", [name for name in sorted(CODECS) if name != "gemini"])
def test_the_last_frame_of_a_protocol_is_known_and_no_other_is_taken_for_it(protocol):
    response = Response(TEXT, "m")
    *frames, last = CODECS[protocol].encode_stream(response, [TextDelta(TEXT)])
    assert tells_end(last)
    assert not any(tells_end(frame) for frame in frames)


def test_spaces_do_not_matter():
    assert tells_end(b"data:[DONE]\n\n")
    assert tells_end(b'event: response.completed\r\ndata: {"type": "response.completed"}\r\n\r\n')


def test_a_text_that_quotes_an_end_is_none():
    assert not tells_end(b"data: " + orjson.dumps({"content": TEXT}) + b"\n\n")
