"""Tries again for ever. The twin's gateway gives up."""

import asyncio

from offbook.errors import ProviderError
from tests.explore.agents.desk import TOOLS, asking, serve, using


async def defect(stage):
    ask_once = asking(stage.provider)

    async def ask(messages):
        while True:
            try:
                return await ask_once(messages)
            except ProviderError:
                await asyncio.sleep(10)

    return await serve(ask, using(stage.tools(TOOLS)))
