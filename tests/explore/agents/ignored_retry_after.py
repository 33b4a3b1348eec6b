"""Tries again at once, and too often, whatever the API asks for. The twin waits as it is told."""

import asyncio

from offbook.errors import ProviderError
from tests.explore.agents.desk import TOOLS, GaveUpError, asking, serve, using


async def defect(harness):
    return await serve(stubborn(harness.provider, tries=12, wait_s=lambda _: 0.0), using(harness.tools(TOOLS)))


async def sound(harness):
    return await serve(stubborn(harness.provider, tries=3, wait_s=told_wait_s), using(harness.tools(TOOLS)))


def told_wait_s(error):
    return getattr(error, "retry_after_s", None) or 1.0


def stubborn(provider, *, tries, wait_s):
    ask_once = asking(provider)

    async def ask(messages):
        for _ in range(tries):
            try:
                return await ask_once(messages)
            except ProviderError as error:
                await asyncio.sleep(wait_s(error))
        raise GaveUpError("the model does not answer")

    return ask
