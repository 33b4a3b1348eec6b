"""What becomes of a question when a fault strikes: one cell of the table."""

from __future__ import annotations

import re

from msgspec import Struct

from offbook.wire.server.wire_server import WireServer
from tests.wire.conformance.sdks import Sdk
from tests.wire.conformance.seen import describe_error

PATIENCE_S = 5.0
IMPATIENCE_S = 0.2
"""The timeout of clients that meet silence."""


class Row(Struct, frozen=True):
    """A fault, as a plan tells it behind the colon.

    SDKs wait half a second and more before they try a broken connection again, and no header makes them hurry: where
    `is_once`, they are told not to try again.
    """

    fault: str
    is_once: bool = False
    is_silent: bool = False

    @property
    def label(self) -> str:
        """The row's first cell."""
        return f"`{self.fault}`" + " ¹" * self.is_once + " ²" * self.is_silent


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
    Row('http_error 200 headers.content-type=text/html body="<html>"'),
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
    Row("slow 20"),
    Row("partial_response"),
    Row("partial_response half"),
    Row("empty_response"),
    Row("content_filter"),
    Row("refusal"),
    Row("unknown_tool"),
    Row("invalid_tool_args"),
    Row("tool_call_fault weather args.city=Oslo"),
    Row("wrong_types"),
    Row("wrong_values"),
    Row("doubled_tool_calls"),
    Row("shared_tool_id"),
    Row("one_more_tool"),
)


def observe(sdk: Sdk, row: Row, server: WireServer, *, is_streamed: bool) -> str:
    """What `sdk` does while the row's fault strikes every try."""
    name = re.sub(r"\W+", "-", f"{sdk.title} {row.fault} {is_streamed}")
    session = server.start_session(name, faults=[f"everywhere: {row.fault}"])
    ask = sdk.ask_streamed if is_streamed else sdk.ask
    timeout_s, retries = IMPATIENCE_S if row.is_silent else PATIENCE_S, 0 if row.is_once else 2
    try:
        seen = str(ask(server.session_url(name), timeout_s=timeout_s, retries=retries))
    except Exception as error:
        seen = describe_error(error)
    tries = len(session.calls)
    return seen if tries == 1 else f"{seen} after {tries} tries"
