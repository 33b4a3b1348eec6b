"""Falls back to a text that claims success. The twin falls back to another model, with the same tools."""

from offbook import ProviderGateway
from offbook.errors import AllProvidersFailedError
from offbook.messages import Response
from tests.explore.agents.desk import BACKUP, DONE, TOOLS, asking, serve, using


async def defect(harness):
    ask_model = asking(harness.gateway)

    async def ask(messages):
        try:
            return await ask_model(messages)
        except AllProvidersFailedError:
            return Response(DONE)

    return await serve(ask, using(harness.tools(TOOLS)))


async def sound(harness):
    gateway = ProviderGateway(sink=harness.recovery_counter)
    gateway.register(harness.provider)
    gateway.register(harness.provider, as_model=BACKUP, is_fallback=True)
    return await serve(asking(gateway), using(harness.tools(TOOLS)))
