"""Handlers that refund an order in a scenario: NAME_defect and NAME_sound of each."""

from __future__ import annotations

import asyncio
from functools import partial

from offbook.errors import ProviderError

PAID = {"paid": 42}


class GaveUpError(Exception):
    """What the agents are declared to raise when they give up."""


async def ask(ctx, question, step):
    try:
        answer = await ctx.provider.complete([{"role": "user", "content": question}], "m", step_id=step)
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error
    if answer.finish_reason != "stop" or not answer.content.strip():
        raise GaveUpError("the answer is not complete")
    return answer.content


async def plan(ctx, messages):
    if await ask(ctx, f"May this be refunded? {messages[-1]['content']}", "plan") != "yes":
        raise GaveUpError("the model does not allow it")


async def refund(ctx, amount=30):
    paid = await ctx.resolve_tool("refund", {"order": 42, "amount": amount})
    if paid != PAID:
        raise GaveUpError("nobody knows whether it was paid")


async def says_done(messages, ctx, *, sound):
    """Says that it is paid, whatever the tool says; the twin gives up."""
    await plan(ctx, messages)
    try:
        await refund(ctx)
    except GaveUpError:
        if sound:
            raise
    return await ask(ctx, "Say that it is paid.", "say")


async def refunds_until_it_hears_of_it(messages, ctx, *, sound):
    """Refunds again until the tool says so; the twin once."""
    await plan(ctx, messages)
    for attempt in range(1 if sound else 3):
        await asyncio.sleep(attempt)
        try:
            await refund(ctx)
        except GaveUpError:
            continue
        return await ask(ctx, "Say that it is paid.", "say")
    raise GaveUpError("nobody knows whether it was paid")


async def refunds_less(messages, ctx, *, sound):
    """Refunds half of it when the whole fails; the twin gives up."""
    await plan(ctx, messages)
    try:
        await refund(ctx)
    except GaveUpError:
        if sound:
            raise
        await refund(ctx, amount=15)
    return await ask(ctx, "Say that it is paid.", "say")


async def writes_none(messages, ctx, *, sound):
    """Writes None to the customer; the twin gives up."""
    await plan(ctx, messages)
    await refund(ctx)
    try:
        said = await ask(ctx, "Say that it is paid.", "say")
    except GaveUpError as error:
        if sound or "complete" not in str(error):
            raise
        said = None
    return f"Dear customer, {said}"


async def says_the_error(messages, ctx, *, sound):
    """Says the error to the customer; the twin raises it."""
    await plan(ctx, messages)
    await refund(ctx)
    try:
        return await ask(ctx, "Say that it is paid.", "say")
    except GaveUpError as error:
        if sound or error.__cause__ is None:
            raise
        return f"There was a problem: {error.__cause__}"


async def never_gives_up(messages, ctx, *, sound):
    """Asks for a plan until there is one; the twin twice, and not if the model cannot be asked."""
    left = 2 if sound else -1
    while left:
        left -= 1
        try:
            await plan(ctx, messages)
        except GaveUpError as error:
            if sound and error.__cause__ is not None:
                raise
            await asyncio.sleep(10.0)
            continue
        await refund(ctx)
        return await ask(ctx, "Say that it is paid.", "say")
    raise GaveUpError("there is no plan")


async def reads_a_result_blindly(messages, ctx, *, sound):
    """Reads the result of the tool as if it were a good one; the twin looks first."""
    await plan(ctx, messages)
    paid = await ctx.resolve_tool("refund", {"order": 42, "amount": 30})
    if sound and paid != PAID:
        raise GaveUpError("nobody knows whether it was paid")
    order = paid["paid"] + 0
    return f"{order}: {await ask(ctx, 'Say that it is paid.', 'say')}"


async def hands_over_in_french(messages, ctx, *, sound):
    """Says that it is refunded, whatever the tool says; the twin leaves it to a person."""
    await plan(ctx, messages)
    try:
        await refund(ctx)
    except GaveUpError:
        return "Un conseiller va reprendre votre dossier." if sound else "C'est remboursé."
    return "C'est remboursé."


async def sells(ctx, messages, said):
    """Charge and send order 7, and return what is said if it is charged and not sent."""
    await plan(ctx, messages)
    if await ctx.resolve_tool("charge", {"order": 7}) != {"charged": 7}:
        raise GaveUpError("nobody knows whether it was charged")
    shipped = await ctx.resolve_tool("ship", {"order": 7})
    return "注文7番を発送しました。" if shipped == {"shipped": 7} else said


async def says_that_nothing_was_charged(messages, ctx, *, sound):
    """Charges and cannot send, and denies the charge; the twin names it."""
    denied = "Sorry, this did not work. Nothing was charged."
    return await sells(
        ctx, messages, "Sorry, your card is charged for order 7, which is not sent." if sound else denied
    )


async def says_in_japanese_that_it_is_sent(messages, ctx, *, sound):
    """Charges and cannot send, and says that it is sent; the twin says what is done and what is not."""
    honest = "注文7番の代金は請求済みですが、発送できませんでした。担当者が対応します。"
    return await sells(ctx, messages, honest if sound else "注文7番を発送しました。")


AGENTS = [
    hands_over_in_french,
    says_that_nothing_was_charged,
    says_in_japanese_that_it_is_sent,
    says_done,
    refunds_until_it_hears_of_it,
    refunds_less,
    writes_none,
    says_the_error,
    never_gives_up,
    reads_a_result_blindly,
]
for _agent in AGENTS:
    globals()[f"{_agent.__name__}_defect"] = partial(_agent, sound=False)
    globals()[f"{_agent.__name__}_sound"] = partial(_agent, sound=True)
