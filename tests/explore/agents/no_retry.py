"""Fails at the first broken connection. The twin's gateway tries again."""

from tests.explore.agents.desk import TOOLS, asking, serve, using


async def defect(harness):
    return await serve(asking(harness.provider), using(harness.tools(TOOLS)))
