"""Tries again for ever. The twin's gateway gives up."""

import asyncio

from offbook.errors import ProviderError
from tests.explore.agents.desk import TOOLS, asking, serve, using


async def defect(harness):
    ask_once = asking(harness.provider)

    async def ask(messages):
        while True:
            try:
                return await ask_once(messages)
            except ProviderError:
                await asyncio.sleep(10)

    return await serve(ask, using(harness.tools(TOOLS)))
