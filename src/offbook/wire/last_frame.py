"""Telling the last frame of a stream, behind which SDKs stop reading though the body goes on."""

import re

_LAST = re.compile(
    rb"^data: ?\[DONE\]"
    rb'|"type": ?"(message_stop|response\.(completed|failed|incomplete))"'
    rb'|"done": ?true',
    re.MULTILINE,
)


def tells_end(frame: bytes) -> bool:
    """Whether a client may take `frame` for the last. Quotes within texts are escaped, so that texts do not match."""
    return _LAST.search(frame) is not None
