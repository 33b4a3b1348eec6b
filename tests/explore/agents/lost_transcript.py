"""Goes on without its conversation when the connection is reset. The twin asks the same again."""

import asyncio

from offbook.errors import ProviderError
from tests.explore.agents.desk import TOOLS, asking, serve, using


async def defect(harness):
    ask_once = asking(harness.provider)

    async def ask(messages):
        try:
            return await ask_once(messages)
        except ConnectionError:
            del messages[1:-1]
        except ProviderError:
            await asyncio.sleep(10)
        return await asking(harness.gateway)(messages)

    return await serve(ask, using(harness.tools(TOOLS)))
