"""Agents that read an amount, a decision or a key out of what they have, and act on it."""

from __future__ import annotations

import asyncio
import json
import re
import secrets

from offbook import tool
from tests.explore.zoo.functions.answers import ask_once
from tests.explore.zoo.functions.desk import DONE, STEP, GaveUpError, is_complete
from tests.explore.zoo.ledger import note
from tests.explore.zoo.planted import PlantedFunction


@tool(side_effect=True)
def transfer(amount: int) -> dict:
    """Pay an amount."""
    note("transfer", amount=amount)
    return {"paid": amount}


SEEN_KEYS = set()


@tool(side_effect=True, idempotent="key")
def refund_by_key(order_id: int, key: str) -> dict:
    """Give the customer the money back, once for each key, of which the ledger has none: they are random."""
    if key not in SEEN_KEYS:
        SEEN_KEYS.add(key)
        note("refund_by_key", order_id=order_id)
    return {"refunded": order_id}


def pay(offbook, amount):
    """Pay once. Nobody knows what became of a transfer that failed."""
    try:
        result = offbook.tools(transfer)["transfer"].callable(amount=amount)
    except Exception as error:
        raise GaveUpError("the bank does not answer") from error
    if result != {"paid": amount}:
        raise GaveUpError("the bank answers nonsense")
    return DONE


async def answer_of(offbook, question, *, step=STEP, minds_length=True):
    """One answer, complete unless its length does not matter."""
    answer = await ask_once(offbook.gateway, [{"role": "user", "content": question}], step=step)
    is_whole = is_complete(answer) if minds_length else bool(answer.content.strip())
    if not is_whole or answer.tool_calls:
        raise GaveUpError("the answer is not complete")
    return answer.content


def closed(text):
    """Read JSON, and close what is open in it."""
    for end in ("", "}", '"}', "]}"):
        try:
            return json.loads(text + end)
        except ValueError:
            continue
    raise GaveUpError("that is not JSON")


async def closes_cut_json(offbook, *, minds_length):
    """Closes the JSON of an answer that was cut; the twin minds that it was cut."""
    found = closed(await answer_of(offbook, "How much, as JSON?", minds_length=minds_length))
    if not isinstance(found.get("amount"), int):
        raise GaveUpError("there is no amount")
    return pay(offbook, found["amount"])


async def takes_the_first_number(offbook, *, minds_length):
    """Pays the first number of an answer, also of one that was cut; the twin minds that. Neither finds one in words."""
    found = re.search(r"\d+", await answer_of(offbook, "How much?", minds_length=minds_length))
    if found is None:
        raise GaveUpError("there is no number")
    return pay(offbook, int(found[0]))


async def takes_a_refusal_for_a_yes(offbook, *, allows):
    """Pays unless the reviewer says no, so also if it says something else; the twin pays if it says yes."""
    said = await answer_of(offbook, "May 30 € be paid?", step="review")
    if not allows(said):
        raise GaveUpError("it was not allowed")
    return pay(offbook, 30)


async def makes_a_random_key(offbook, *, is_new_each_time):
    """Tries a lost refund again under a new random key; the twin under the one that it has made before."""
    refund, key = offbook.tools(refund_by_key)["refund_by_key"].callable, secrets.token_hex(8)
    for attempt in range(3):
        await asyncio.sleep(attempt)
        key = secrets.token_hex(8) if is_new_each_time else key
        try:
            result = refund(order_id=42, key=key)
        except Exception:
            continue
        if result == {"refunded": 42}:
            return DONE
    raise GaveUpError("the bank does not answer")


PLANTED = [
    PlantedFunction(
        name="closes cut JSON",
        agent=closes_cut_json,
        defect={"minds_length": False},
        sound={"minds_length": True},
        answers={STEP: [{"content": '{"why": "it came late", "amount": 12000}'}]},
        verdict="wrong effect",
        at="step=agent call=1 attempt=1: partial_response half",
        evidence="transfer(amount=12) ran",
    ),
    PlantedFunction(
        name="takes the first number",
        agent=takes_the_first_number,
        defect={"minds_length": False},
        sound={"minds_length": True},
        answers={STEP: [{"content": "12000"}]},
        verdict="wrong effect",
        at="step=agent call=1 attempt=1: partial_response half",
        evidence="transfer(amount=12) ran",
    ),
    PlantedFunction(
        name="takes a refusal for a yes",
        agent=takes_a_refusal_for_a_yes,
        defect={"allows": lambda said: said != "No."},
        sound={"allows": lambda said: said == "Yes."},
        answers={"review": [{"content": "Yes."}]},
        verdict="undetected (went on without)",
        at="step=review call=1 attempt=1: refusal",
        evidence="call 1 review got a refusal, and the result is the same",
    ),
    PlantedFunction(
        name="makes a random key",
        agent=makes_a_random_key,
        defect={"is_new_each_time": True},
        sound={"is_new_each_time": False},
        answers={},
        verdict="repeated effect",
        at="tool=refund_by_key call=1: tool_lost",
        evidence="refund_by_key is idempotent by key, and was called with 2 different ones",
    ),
]
