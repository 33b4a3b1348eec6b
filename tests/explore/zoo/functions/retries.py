"""Agents that try again: for ever, in vain, too soon, or too often."""

from __future__ import annotations

import asyncio
import time

from offbook import tool
from offbook.errors import ProviderError, RateLimitError
from tests.explore.zoo.functions.answers import QUESTION, SAID
from tests.explore.zoo.functions.desk import (
    MODEL,
    REFUND,
    RETRYABLE,
    STEP,
    TOOLS,
    GaveUpError,
    Till,
    is_complete,
    serve,
)
from tests.explore.zoo.planted import PlantedFunction

OR_LATER = (*RETRYABLE, 429)


async def say(offbook):
    return text_of(await offbook.provider.complete(QUESTION, MODEL, step_id=STEP))


def text_of(answer):
    if not is_complete(answer):
        raise GaveUpError("the answer is not complete")
    return answer.content


async def never_gives_up(offbook, *, tries):
    """Catches everything and asks again, for ever; the twin three times, and only where that may help."""
    while True:
        tries -= 1
        try:
            return await say(offbook)
        except BaseException as error:
            if tries >= 0 and (tries == 0 or getattr(error, "status_code", 400) not in RETRYABLE):
                raise GaveUpError("the model does not answer") from error
        await asyncio.sleep(5.0)


async def asks_until_it_says_something(offbook, *, tries):
    """Asks again while the answer is empty, for ever; the twin so often."""
    while tries:
        tries -= 1
        try:
            answer = await offbook.gateway.complete(QUESTION, MODEL, step_id=STEP)
        except ProviderError as error:
            raise GaveUpError("the model does not answer") from error
        if answer.content.strip():
            return text_of(answer)
        await asyncio.sleep(1.0)
    raise GaveUpError("the model says nothing")


async def calls_itself_again(offbook, *, depth=0, limit):
    """Calls itself when the model fails, as deep as it goes; the twin three levels."""
    try:
        return await say(offbook)
    except ProviderError as error:
        if depth == limit or error.status_code not in OR_LATER:
            raise GaveUpError("the model does not answer") from error
        await asyncio.sleep(error.retry_after_s or 1.0 if isinstance(error, RateLimitError) else 1.0 + depth)
    return await calls_itself_again(offbook, depth=depth + 1, limit=limit)


def asking_again(offbook, *, tries, wait_s, statuses=OR_LATER):
    """Asks with the tools of the desk, and again after some errors."""

    async def ask(messages):
        for attempt in range(tries):
            try:
                answer = await offbook.provider.complete(messages, MODEL, tools=TOOLS.functions, step_id=STEP)
            except ProviderError as error:
                if error.status_code not in statuses:
                    raise GaveUpError("the model refuses the question") from error
                await wait_s(error, attempt)
                continue
            if not is_complete(answer):
                raise GaveUpError("the answer is not complete")
            return answer
        raise GaveUpError("the model does not answer")

    return ask


async def wait_as_told(error, attempt):
    await asyncio.sleep(max(2.0**attempt, getattr(error, "retry_after_s", None) or 0.0))


async def block_as_told(error, attempt):
    time.sleep(max(2.0**attempt, getattr(error, "retry_after_s", None) or 0.0))  # noqa: ASYNC251


async def wait_a_little(error, attempt):
    await asyncio.sleep(0.5)


async def block_a_little(error, attempt):
    time.sleep(0.5)  # noqa: ASYNC251


async def wait_not_at_all(error, attempt):
    await asyncio.sleep(max(0.0, getattr(error, "retry_after_s", None) or 0.0))


async def asks_again(offbook, *, wait_s=wait_as_told, tries=3, statuses=OR_LATER):
    """Asks again when the model fails, and the twins differ in how."""
    return await serve(asking_again(offbook, tries=tries, wait_s=wait_s, statuses=statuses), Till(offbook.tools(TOOLS)))


@tool(read_only=True)
def job_state(job: int) -> str:
    """Tell how far a job is."""
    return "ready"


async def polls_for_ever(offbook, *, polls):
    """Waits until a job is ready, for ever; the twin a minute."""
    state_of = offbook.tools(job_state)["job_state"].callable
    while polls:
        polls -= 1
        try:
            state = state_of(job=7)
        except Exception:
            state = "unknown"
        if state == "ready":
            return text_of(await offbook_answer(offbook))
        await asyncio.sleep(5.0)
    raise GaveUpError("the job does not get ready")


async def offbook_answer(offbook):
    try:
        return await offbook.gateway.complete(QUESTION, MODEL, step_id=STEP)
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error


PLANTED = [
    PlantedFunction(
        name="never gives up",
        agent=never_gives_up,
        defect={"tries": 0},
        sound={"tries": 3},
        answers=SAID,
        verdict="hung",
        at="step=agent call=1: connection_reset",
        also=["bad retry (in vain)", "bad retry (too soon)", "bad retry (storm)"],
    ),
    PlantedFunction(
        name="asks until it says something",
        agent=asks_until_it_says_something,
        defect={"tries": -1},
        sound={"tries": 3},
        answers=SAID,
        verdict="hung",
        at="step=agent since=1: empty_response",
    ),
    PlantedFunction(
        name="calls itself again",
        agent=calls_itself_again,
        defect={"limit": -1},
        sound={"limit": 2},
        answers=SAID,
        verdict="hung",
        at="step=agent call=1: http_error 500",
        also=["crashed"],
    ),
    PlantedFunction(
        name="retries in vain",
        agent=asks_again,
        defect={"statuses": (*OR_LATER, 400, 401, 403, 404, 422)},
        sound={},
        answers=REFUND,
        verdict="bad retry (in vain)",
        at="step=agent call=1: http_error 401",
    ),
    PlantedFunction(
        name="does not pause",
        agent=asks_again,
        defect={"wait_s": wait_not_at_all, "tries": 60},
        sound={},
        answers=REFUND,
        verdict="bad retry (storm)",
        at="step=agent call=2: http_error 500",
        also=["hung"],
    ),
    PlantedFunction(
        name="ignores retry-after",
        agent=asks_again,
        defect={"wait_s": wait_a_little},
        sound={},
        answers=REFUND,
        verdict="bad retry (too soon)",
        at="step=agent call=2 attempt=1: http_error 429 headers.retry-after=3",
    ),
    PlantedFunction(
        name="ignores retry-after, blocking",
        agent=asks_again,
        defect={"wait_s": block_a_little},
        sound={"wait_s": block_as_told},
        answers=REFUND,
        verdict="bad retry (too soon)",
        at="step=agent call=1 attempt=1: http_error 429 headers.retry-after=3",
    ),
    PlantedFunction(
        name="polls for ever",
        agent=polls_for_ever,
        defect={"polls": -1},
        sound={"polls": 12},
        answers=SAID,
        verdict="hung",
        at="tool=job_state: tool_error",
    ),
]
