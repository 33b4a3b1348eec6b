"""How a real API failed."""

import pytest

from offbook.faults import ConnectionReset, HttpError, StreamTruncate
from offbook.recording.format.exchange import Exchange
from offbook.wire.proxy.forwarding import describe_failure
from offbook.wire.proxy.recorder import CapturedResponse
from offbook.wire.response import HttpResponse


@pytest.mark.parametrize(
    ("fault", "capture", "message"),
    [
        (None, CapturedResponse(HttpResponse(200)), ""),
        (HttpError(401), CapturedResponse(HttpResponse(401)), "status 401 from X"),
        (
            ConnectionReset(),
            CapturedResponse(HttpResponse(None, ending="reset"), "ConnectError"),
            "no answer from X (ConnectError)",
        ),
        (
            ConnectionReset(),
            CapturedResponse(HttpResponse(None, ending="silence"), "Late"),
            "no answer from X in time (Late)",
        ),
        (StreamTruncate(2), CapturedResponse(HttpResponse(200, ending="cut")), "stream_truncate from X"),
        (StreamTruncate(2), CapturedResponse(HttpResponse(200), has_client_left=True), ""),
    ],
    ids=["fine", "status", "nothing", "silence", "cut", "left"],
)
def test_it_is_reported_in_a_few_words(fault, capture, message):
    assert describe_failure(Exchange(fault=fault), capture, "X") == message
