"""What becomes of a question when a fault strikes: one cell of the table."""

from __future__ import annotations

from msgspec import Struct

from tests.wire.conformance.sdks import Sdk
from tests.wire.conformance.seen import told_error
from understudy.wire.serving import WireServer

PATIENCE_S = 5.0
IMPATIENCE_S = 0.1
"""The timeout of clients that meet silence."""


class Row(Struct, frozen=True):
    """A fault as a line of a plan behind `everywhere:`.

    SDKs wait half a second and more before they try a broken connection again, and no header makes them
    hurry: they are told not to where `is_once`.
    """

    fault: str
    is_once: bool = False
    is_silent: bool = False


ROWS = (
    Row("timeout", is_once=True, is_silent=True),
    Row("connection_reset", is_once=True),
    Row("http_error 400"),
    Row("http_error 404"),
    Row("http_error 408"),
    Row("http_error 409"),
    Row("http_error 429"),
    Row("http_error 500"),
    Row("http_error 529"),
    Row("http_error 500 headers.x-should-retry=false"),
    Row("context_overflow"),
    Row('malformed_response "not json"'),
    Row("malformed_response"),
    Row("wrong_shape"),
    Row("wrong_content_type"),
    Row("stream_truncate 5", is_once=True),
    Row("stream_truncate 5 raise=cut", is_once=True),
    Row("stream_truncate 5 raise=TimeoutError", is_once=True, is_silent=True),
    Row("stream_truncate 5 raise=clean"),
    Row("stream_truncate 0 raise=clean"),
    Row("stream_truncate 5 raise=error_event"),
    Row("stream_truncate 5 raise=malformed"),
    Row("stream_stall 5 for_ms=20"),
    Row("stream_stall 5", is_once=True, is_silent=True),
    Row("slow_drip 2"),
    Row("partial_response"),
    Row("empty_response"),
    Row("content_filter"),
    Row("unknown_tool"),
    Row("invalid_tool_args"),
    Row("tool_call_fault weather"),
)


def observe(sdk: Sdk, row: Row, server: WireServer, *, streamed: bool) -> str:
    """Ask with `sdk` while the row's fault strikes every try, and say what came of it."""
    name = "-".join([sdk.title, row.fault, str(streamed)]).replace(" ", "-").replace(",", "").replace("/", "-")
    session = server.start_session(name, faults=[f"everywhere: {row.fault}"])
    ask = sdk.ask_streamed if streamed else sdk.ask
    try:
        seen = str(
            ask(
                server.session_url(name),
                timeout_s=IMPATIENCE_S if row.is_silent else PATIENCE_S,
                retries=0 if row.is_once else 2,
            )
        )
    except Exception as error:
        seen = told_error(error)
    tries = len(session.calls)
    return seen if tries == 1 else f"{seen} after {tries} tries"
