"""What becomes of a question when a fault strikes it: the cells of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from itertools import product
from typing import TypeAlias

from msgspec import Struct

from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import WireSession
from tests.wire.conformance.observe import ROWS, Row
from tests.wire.node.driver import PATIENCE_S, Driver, Result
from tests.wire.node.questions import QUESTIONS, Question

Columns: TypeAlias = Mapping[str, Mapping[str, str]]
PATIENCE_MS = 20_000
IMPATIENCE_MS = 600
"""The timeout of clients that meet silence: long enough for what comes before it, on a busy machine too."""

HANG_MS = 2000
"""When a question counts as one that never ends, its client's timeout notwithstanding."""


class Observed(Struct, frozen=True):
    """One question, asked while a fault strikes every try."""

    question: Question
    is_streamed: bool
    session: WireSession
    result: Future[Result]

    def __str__(self) -> str:
        """What came of it, once it has ended."""
        result = self.result.result(PATIENCE_S)
        if result.hangs:
            cell = "hangs"
        elif result.error is not None:
            cell = f"`{result.error.name}`"
        else:
            cell = str(self.question.seen(result, is_streamed=self.is_streamed))
        tries = len(self.session.calls)
        return cell if tries == 1 else f"{cell} after {tries} tries"


def observe(driver: Driver, server: WireServer) -> dict[bool, Columns]:
    """The cells of both tables: by the titles of the SDKs, and those by the faults.

    Questions are asked side by side. Those that a client waits with are asked once the others have ended, so that it is
    not for want of time that nothing comes.
    """
    seen: dict[tuple[bool, str, str], str] = {}
    for is_late in (False, True):
        futures = {
            (is_streamed, question.title, row.fault): _ask(driver, server, row, question, is_streamed=is_streamed)
            for row, question, is_streamed in product(ROWS, QUESTIONS, (False, True))
            if is_late == (row.is_silent or row.fault == "connection_reset")
        }
        seen |= {place: str(observed) for place, observed in futures.items()}
    titles = [question.title for question in QUESTIONS]
    return {
        is_streamed: {
            title: {f"`{row.fault}`": seen[is_streamed, title, row.fault] for row in ROWS} for title in titles
        }
        for is_streamed in (False, True)
    }


def _ask(driver: Driver, server: WireServer, row: Row, question: Question, *, is_streamed: bool) -> Observed:
    name = f"{ROWS.index(row)}-{QUESTIONS.index(question)}-{is_streamed}"
    session = server.start_session(name, faults=[f"everywhere: {row.fault}"])
    is_cut_off = row.is_silent and row.fault != "timeout"
    case = question.case(
        server.session_url(name),
        is_streamed=is_streamed,
        options={"timeout": IMPATIENCE_MS if row.is_silent else PATIENCE_MS, "maxRetries": 0 if is_cut_off else 2},
        patience_ms=HANG_MS if is_cut_off else PATIENCE_MS,
    )
    return Observed(question, is_streamed, session, driver.submit(**case))
