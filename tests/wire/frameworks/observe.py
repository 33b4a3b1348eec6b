"""What becomes of a question when a fault strikes it: the cells of the tables."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from msgspec import Struct

from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import WireSession
from tests.wire.frameworks.client import PATIENCE_S, Client
from tests.wire.frameworks.scripts import PLAIN

IMPATIENCE_S = 0.8
GLANCE_S = 0.002
MAX_THREADS = 64
SILENCE_MS = 3000
"""How long a silence lasts: clients with a timeout do not wait for its end."""


class Row(Struct, frozen=True):
    """A fault as a line of a plan, the timeout of the client that meets it, and whether it waits long all the same."""

    fault: str
    timeout_s: float = PATIENCE_S
    is_slow: bool = False


ROWS = (
    Row("attempt=1: http_error 500"),
    Row("attempt=1: http_error 429 headers.retry-after-ms=1"),
    Row("everywhere: http_error 500"),
    Row(f"everywhere: timeout {SILENCE_MS}", IMPATIENCE_S, is_slow=True),
    Row("everywhere: connection_reset", is_slow=True),
    Row('everywhere: malformed_response "not json"'),
    Row("everywhere: stream_truncate 5", is_slow=True),
    Row("everywhere: stream_truncate 5 raise=clean"),
    Row(f"everywhere: stream_stall 5 for_ms={SILENCE_MS}", IMPATIENCE_S, is_slow=True),
    Row("everywhere: empty_response"),
)


async def observe(clients: tuple[Client, ...], server: WireServer) -> dict[str, dict[str, str]]:
    """The cells by their clients, whole and streamed, and those by their faults.

    Clients wait side by side, but ask one after the other, the slow ones at last: it must not be for want of time that
    one gives up.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MAX_THREADS))
    columns = list(product(clients, (False, True)))
    tasks: dict[tuple[Client, bool, Row], asyncio.Task[str]] = {}
    for row in sorted(ROWS, key=lambda row: row.is_slow):
        for client, is_streamed in columns:
            tasks[client, is_streamed, row] = await _begun(client, row, server, is_streamed=is_streamed)
    return {
        _title(client, is_streamed=is_streamed): {
            f"`{row.fault}`": await tasks[client, is_streamed, row] for row in ROWS
        }
        for client, is_streamed in columns
    }


async def _begun(client: Client, row: Row, server: WireServer, *, is_streamed: bool) -> asyncio.Task[str]:
    """A question that has come to the server."""
    name = f"{client.title}-{ROWS.index(row)}-{is_streamed}".replace("/", "").replace(" ", "-")
    session = server.start_session(name, faults=[row.fault])
    task = asyncio.create_task(_cell(client, row, session, server.session_url(name), is_streamed=is_streamed))
    while not session.calls and not task.done():  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(GLANCE_S)
    return task


def _title(client: Client, *, is_streamed: bool) -> str:
    return f"{client.title}, streamed" if is_streamed else client.title


async def _cell(client: Client, row: Row, session: WireSession, url: str, *, is_streamed: bool) -> str:
    if is_streamed and row.fault in client.never_ends:
        return "never ends ¹"
    try:
        seen = _describe_text(await _ask(client, url, row.timeout_s, is_streamed=is_streamed))
    except Exception as error:
        seen = _describe_error(error)
    tries = len([call for call in session.calls if call.request is not None])
    return seen if tries == 1 else f"{seen} after {tries} tries"


async def _ask(client: Client, url: str, timeout_s: float, *, is_streamed: bool) -> str | None:
    if not is_streamed:
        return await client.ask(url, timeout_s=timeout_s)
    return "".join([piece async for piece in client.stream(url, timeout_s=timeout_s)])


def _describe_text(text: str | None) -> str:
    if text == PLAIN:
        return "answer"
    return "cut short, no error" if text else "no text, no error"


def _describe_error(error: Exception) -> str:
    module = type(error).__module__.partition(".")[0]
    name = type(error).__name__
    return f"`{name}`" if module == "builtins" else f"`{module}.{name}`"
