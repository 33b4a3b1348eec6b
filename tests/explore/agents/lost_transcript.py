"""Goes on without its conversation when the connection is reset. The twin asks the same again."""

import asyncio

from offbook.errors import ProviderError
from tests.explore.agents.desk import TOOLS, asking, serve, using


async def defect(stage):
    ask_once = asking(stage.provider)

    async def ask(messages):
        try:
            return await ask_once(messages)
        except ConnectionError:
            del messages[1:-1]
        except ProviderError:
            await asyncio.sleep(10)
        return await asking(stage.gateway)(messages)

    return await serve(ask, using(stage.tools(TOOLS)))
