"""Who asks in an explored conversation: the agent on the stage, all others aside."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.explore.stage import Stage
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.scenarios.target.target import AGENT_STEP


class StagedParts(Provider):
    """Passes calls on without the conversation's `prefix` before their steps: the agent's to where faults strike."""

    name = "explore"

    def __init__(self, stage: Stage, prefix: str) -> None:
        self._stage, self._prefix = stage, prefix

    async def send(self, request: Request) -> Reply:
        step = (request.step_id or "").removeprefix(self._prefix)
        is_agent = step == AGENT_STEP or step.startswith(f"{AGENT_STEP}.")
        provider = self._stage.provider if is_agent else self._stage.aside
        return await provider.send(replace(request, step_id=step))
