"""Agents that pass on what is cut, empty, garbled or not an answer at all, or go on without one."""

from __future__ import annotations

import asyncio
import json

from offbook import ProviderGateway, tool
from offbook.errors import ProviderError
from offbook.messages import StreamEnd, TextDelta
from tests.explore.zoo.functions.desk import (
    DONE,
    MODEL,
    REFUND,
    RETRYABLE,
    STEP,
    TOOLS,
    GaveUpError,
    Till,
    asking,
    is_complete,
    serve,
)
from tests.explore.zoo.ledger import note
from tests.explore.zoo.planted import PlantedFunction

QUESTION = [{"role": "user", "content": "Where is order 42?"}]
TEXT = "It is on its way, and will be there tomorrow."
SAID = {STEP: [{"content": TEXT}]}
STREAMED = {
    STEP: [{"content": TEXT, "chunks": [[0.0, "It is on its way, "], [0.0, "and will be "], [0.0, "there tomorrow."]]}]
}


async def ask_once(provider, messages=QUESTION, *, step=STEP, model=MODEL):
    """One call without tools; an error of the model gives up."""
    try:
        return await provider.complete(messages, model, step_id=step)
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error


async def passes_an_answer_on(offbook, *, minds_length=True, minds_emptiness=True, minds_errors=True):
    """Returns an answer, be it cut or empty, or an error instead of one; the twin gives up."""
    try:
        answer = await offbook.gateway.complete(QUESTION, MODEL, step_id=STEP)
    except ProviderError as error:
        if minds_errors:
            raise GaveUpError("the model does not answer") from error
        return f"{error}"
    is_cut, is_empty = answer.finish_reason == "length", not answer.content.strip()
    if (minds_length and is_cut) or (minds_emptiness and is_empty):
        raise GaveUpError("the answer is not complete")
    return answer.content


async def writes_none(offbook, *, minds):
    """Writes None into its text where there is no answer; the twin gives up."""
    answer = await ask_once(offbook.gateway)
    if (minds and not is_complete(answer)) or answer.finish_reason == "length":
        raise GaveUpError("the answer is not complete")
    return f"Dear customer, {answer.content or None}"


@tool(read_only=True)
def find_price(product: str) -> dict:
    """Look up a price."""
    return {"product": product, "price": 30}


async def believes_a_garbled_result(offbook, *, minds):
    """Writes the result of a tool into its text, whatever it is; the twin looks at it."""
    find = offbook.tools(find_price)["find_price"].callable
    try:
        price = find(product="chair")
    except Exception as error:
        raise GaveUpError("there is no price") from error
    if minds and not (isinstance(price, dict) and isinstance(price.get("price"), int)):
        raise GaveUpError("that is not a price")
    answer = await ask_once(offbook.gateway, [{"role": "user", "content": "Praise a chair."}])
    if not is_complete(answer):
        raise GaveUpError("the answer is not complete")
    return f"{answer.content} {json.dumps(price)}"


async def passes_on_a_cut_stream(offbook, *, minds):
    """Returns what has come of a stream that broke; the twin reads it again."""
    for attempt in range(3):
        await asyncio.sleep(attempt)
        try:
            reply = await offbook.provider.stream(QUESTION, MODEL, step_id=STEP)
        except ProviderError as error:
            wait_or_give_up(error)
            continue
        text = ""
        try:
            async for event in reply:
                text += piece_of(event)
        except ProviderError as error:
            if minds or not text:
                wait_or_give_up(error)
                continue
        return text
    raise GaveUpError("the stream breaks every time")


def wait_or_give_up(error):
    """Give up after an error that will not pass by itself."""
    if error.status_code not in RETRYABLE:
        raise GaveUpError("the model does not answer") from error


def piece_of(event):
    """The text of an event of a stream. Its end must be one of a complete answer."""
    if isinstance(event, StreamEnd):
        check_end(event.response)
    return event.text if isinstance(event, TextDelta) else ""


def check_end(answer):
    if not is_complete(answer):
        raise GaveUpError("the answer is not complete")


async def doubles_a_stream(offbook, *, forgets_what_came_before):
    """Adds the second stream to what has come of the first; the twin starts with an empty text."""
    text = ""
    for attempt in range(3):
        await asyncio.sleep(attempt)
        text = "" if forgets_what_came_before else text
        try:
            reply = await offbook.provider.stream(QUESTION, MODEL, step_id=STEP)
            async for event in reply:
                text += piece_of(event)
        except ProviderError as error:
            wait_or_give_up(error)
            continue
        return text
    raise GaveUpError("the stream breaks every time")


NAMES = ["chair", "table", "lamp"]
THREE = {STEP: [{"content": f"A fine {name}."} for name in NAMES]}


async def returns_a_shorter_list(offbook, *, skips):
    """Leaves out what it has no answer for; the twin gives up."""
    texts = []
    for name in NAMES:
        try:
            answer = await ask_once(offbook.gateway, [{"role": "user", "content": f"Praise a {name}."}])
        except GaveUpError:
            if not skips:
                raise
            continue
        check_end(answer)
        texts.append(answer.content)
    return texts


LINES = {STEP: [{"content": "chair 30\ntable 90\nlamp 15\nshelf 60\n"}]}


async def reads_the_lines_that_came(offbook, *, minds):
    """Takes the lines of a list that was cut; the twin minds that it was."""
    answer = await ask_once(offbook.gateway, [{"role": "user", "content": "List the prices."}])
    if minds and not is_complete(answer):
        raise GaveUpError("the answer is not complete")
    pairs = [line.split() for line in answer.content.splitlines()]
    prices = [{"name": pair[0], "price": pair[1]} for pair in pairs if len(pair) == 2]
    if not prices:
        raise GaveUpError("this is not a list of prices")
    return prices


async def falls_back_to_a_default(offbook, *, default):
    """Approves when the model does not answer; the twin gives up."""
    try:
        answer = await ask_once(offbook.gateway, [{"role": "user", "content": "approve or reject?"}])
    except GaveUpError:
        if default is None:
            raise
        return default
    if answer.content not in ("approve", "reject"):
        raise GaveUpError("that is neither")
    return answer.content


def never_approves(run):
    """Whether nothing is approved that the model would reject."""
    return run.result != "approve"


async def falls_back_to_a_text(offbook, *, to_another_model):
    """Says that it is done when it fails; the twin asks another model, with the same tools, and then gives up."""
    gateway = with_backup(offbook) if to_another_model else offbook.gateway
    try:
        return await serve(asking(gateway), Till(offbook.tools(TOOLS)))
    except GaveUpError:
        if to_another_model:
            raise
        return DONE


def with_backup(offbook):
    gateway = ProviderGateway(sink=offbook.recovery_counter)
    gateway.register(offbook.provider)
    gateway.register(offbook.provider, as_model="backup", is_fallback=True)
    return gateway


@tool(side_effect=True)
def publish(text: str) -> str:
    """Put a text on the page."""
    note("publish", text=text)
    return "published"


DRAFT = {"draft": [{"content": "A fine chair."}], "review": [{"content": "ok"}]}


async def publishes_unchecked(offbook, *, needs_a_review):
    """Publishes what nobody could review; the twin does not."""
    draft = await ask_once(offbook.gateway, [{"role": "user", "content": "Praise a chair."}], step="draft")
    check_end(draft)
    if "chair" not in draft.content:
        raise GaveUpError("the text is about something else")
    try:
        question = [{"role": "user", "content": f"Is this good? {draft.content}"}]
        review = (await ask_once(offbook.gateway, question, step="review")).content
    except GaveUpError:
        if needs_a_review:
            raise
        review = "ok"
    if review != "ok":
        raise GaveUpError("the review is bad")
    return put_on_the_page(offbook, draft.content)


def put_on_the_page(offbook, text):
    try:
        done = offbook.tools(publish)["publish"].callable(text=text)
    except Exception as error:
        raise GaveUpError("it may not be on the page") from error
    if done != "published":
        raise GaveUpError("it may not be on the page")
    return text


@tool(side_effect=True)
def pay_bill(bill: int) -> str:
    """Pay a bill."""
    note("pay_bill", bill=bill)
    return "paid"


async def pays_on_an_empty_review(offbook, *, needs_a_yes):
    """Pays unless the review objects, an empty one too; the twin needs a yes."""
    review = await ask_once(offbook.gateway, [{"role": "user", "content": "Any objections to bill 7? Else say: none"}])
    objects = review.content != "none" if needs_a_yes else "object" in review.content
    if objects:
        raise GaveUpError("there are objections")
    try:
        paid = offbook.tools(pay_bill)["pay_bill"].callable(bill=7)
    except Exception as error:
        raise GaveUpError("it may not be paid") from error
    if paid != "paid":
        raise GaveUpError("it may not be paid")
    return "Bill 7 is paid."


CACHE = {}


async def caches_a_bad_answer(offbook, *, only_good_ones):
    """Keeps an answer for the next question, an empty or cut one too; the twin only a good one."""
    for _ in range(2):
        if "answer" not in CACHE:
            answer = await ask_once(offbook.gateway)
            if is_complete(answer) or not only_good_ones:
                CACHE["answer"] = answer.content
    if "answer" not in CACHE:
        raise GaveUpError("the model has no answer")
    return CACHE["answer"]


PLANTED = [
    PlantedFunction(
        name="ignores length",
        agent=passes_an_answer_on,
        defect={"minds_length": False},
        sound={},
        answers=SAID,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1: partial_response half",
    ),
    PlantedFunction(
        name="returns an empty answer",
        agent=passes_an_answer_on,
        defect={"minds_emptiness": False},
        sound={},
        answers=SAID,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1: empty_response",
    ),
    PlantedFunction(
        name="writes None",
        agent=writes_none,
        defect={"minds": False},
        sound={"minds": True},
        answers=SAID,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1: empty_response",
        evidence="None",
    ),
    PlantedFunction(
        name="returns the error",
        agent=passes_an_answer_on,
        defect={"minds_errors": False},
        sound={},
        answers=SAID,
        verdict="undetected (broken data)",
        at="step=agent call=1: http_error 500",
        also=["undetected (went on without)"],
    ),
    PlantedFunction(
        name="believes a garbled result",
        agent=believes_a_garbled_result,
        defect={"minds": False},
        sound={"minds": True},
        answers={STEP: [{"content": "A fine chair."}]},
        verdict="undetected (broken data)",
        at="tool=find_price call=1: tool_garbled",
    ),
    PlantedFunction(
        name="passes on a cut stream",
        agent=passes_on_a_cut_stream,
        defect={"minds": False},
        sound={"minds": True},
        answers=STREAMED,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1 chunk=1: stream_truncate raise=clean",
        also=["undetected (went on without)"],
    ),
    PlantedFunction(
        name="doubles a stream",
        agent=doubles_a_stream,
        defect={"forgets_what_came_before": False},
        sound={"forgets_what_came_before": True},
        answers=STREAMED,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1 chunk=1: stream_truncate",
    ),
    PlantedFunction(
        name="returns a shorter list",
        agent=returns_a_shorter_list,
        defect={"skips": True},
        sound={"skips": False},
        answers=THREE,
        verdict="undetected (broken data)",
        at="step=agent call=2: http_error 500",
        also=["undetected (went on without)"],
    ),
    PlantedFunction(
        name="reads the lines that came",
        agent=reads_the_lines_that_came,
        defect={"minds": False},
        sound={"minds": True},
        answers=LINES,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1: partial_response half",
    ),
    PlantedFunction(
        name="falls back to a default",
        agent=falls_back_to_a_default,
        defect={"default": "approve"},
        sound={"default": None},
        answers={STEP: [{"content": "reject"}]},
        invariants=[never_approves],
        verdict="undetected (failed check)",
        at="step=agent call=1: http_error 500",
        evidence="never_approves",
    ),
    PlantedFunction(
        name="falls back to a text",
        agent=falls_back_to_a_text,
        defect={"to_another_model": False},
        sound={"to_another_model": True},
        answers=REFUND,
        verdict="missing effect",
        at="step=agent call=1: http_error 500",
        evidence="refund",
        also=["undetected (went on without)", "undetected (broken data)"],
    ),
    PlantedFunction(
        name="publishes unchecked",
        agent=publishes_unchecked,
        defect={"needs_a_review": False},
        sound={"needs_a_review": True},
        answers=DRAFT,
        verdict="undetected (went on without)",
        at="step=review call=1: http_error 500",
        evidence="review",
    ),
    PlantedFunction(
        name="pays on an empty review",
        agent=pays_on_an_empty_review,
        defect={"needs_a_yes": False},
        sound={"needs_a_yes": True},
        answers={STEP: [{"content": "none"}]},
        verdict="undetected (went on without)",
        at="step=agent call=1 attempt=1: empty_response",
        also=["undetected (broken data)"],
    ),
    PlantedFunction(
        name="caches a bad answer",
        agent=caches_a_bad_answer,
        defect={"only_good_ones": False},
        sound={"only_good_ones": True},
        answers=SAID,
        verdict="undetected (broken data)",
        at="step=agent call=1 attempt=1: empty_response",
    ),
]
