"""How a real API failed."""

import pytest

from offbook.faults import ConnectionReset, HttpError, StreamTruncate
from offbook.recording.exchange import Exchange
from offbook.wire.answer import Answer
from offbook.wire.heard import Heard
from offbook.wire.upstream_failure import failure_of


@pytest.mark.parametrize(
    ("fault", "heard", "told"),
    [
        (None, Heard(Answer(200)), ""),
        (HttpError(401), Heard(Answer(401)), "status 401 from X"),
        (ConnectionReset(), Heard(Answer(None, ending="reset"), "ConnectError"), "no answer from X (ConnectError)"),
        (ConnectionReset(), Heard(Answer(None, ending="silence"), "Late"), "no answer from X in time (Late)"),
        (StreamTruncate(2), Heard(Answer(200, ending="cut")), "stream_truncate from X"),
        (StreamTruncate(2), Heard(Answer(200), has_client_left=True), ""),
    ],
    ids=["fine", "status", "nothing", "silence", "cut", "left"],
)
def test_it_is_told_in_a_few_words(fault, heard, told):
    assert failure_of(Exchange(fault=fault), heard, "X") == told
