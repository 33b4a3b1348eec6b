"""Fails at the first broken connection. The twin's gateway tries again."""

from tests.explore.agents.desk import TOOLS, asking, serve, using


async def defect(stage):
    return await serve(asking(stage.provider), using(stage.tools(TOOLS)))
