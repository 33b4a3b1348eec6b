"""What becomes of a question when a fault strikes it: the cells of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from msgspec import Struct

from tests.wire.conformance.observe import ROWS, Row
from tests.wire.node.driver import PATIENCE_S, Driver, Result
from tests.wire.node.questions import QUESTIONS, Question
from understudy.wire.serving import WireServer
from understudy.wire.session import WireSession

PATIENCE_MS = 20_000
IMPATIENCE_MS = 400
"""The timeout of clients that meet silence: long enough for what comes before it, on a busy machine too."""

HANG_MS = 1500
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
            told = "hangs"
        elif result.error is not None:
            told = f"`{result.error.name}`"
        else:
            told = str(self.question.seen(result, is_streamed=self.is_streamed))
        tries = len(self.session.calls)
        return told if tries == 1 else f"{told} after {tries} tries"


def observe(driver: Driver, server: WireServer, *, is_streamed: bool) -> Mapping[str, Mapping[str, str]]:
    """The cells by their SDKs, and those by their faults.

    Questions are asked side by side. Those that meet silence wait until the others have ended, so that it is not for
    want of time that nothing comes.
    """
    seen: dict[tuple[str, str], str] = {}
    for is_silent in (False, True):
        asked = {
            (question.title, row.fault): _ask(driver, server, row, question, is_streamed=is_streamed)
            for row in ROWS
            for question in QUESTIONS
            if row.is_silent == is_silent
        }
        seen |= {place: str(observed) for place, observed in asked.items()}
    titles = [question.title for question in QUESTIONS]
    return {title: {f"`{row.fault}`": seen[title, row.fault] for row in ROWS} for title in titles}


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
