"""The floor of the agent loops: the least that could be called a guarded loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bench.contestants.agent_loop import ASKED, PROMPT, RESULT, AgentLoop, submit

LOOP_FLOOR = "floor: a list of dicts, a lookup, a check"
Call = tuple[str, dict[str, Any]]


class FloorLoop(AgentLoop):
    """Keeps the conversation as plain dicts, wants the tool to be there and `fetch` to come first, and no more."""

    name = LOOP_FLOOR

    async def script(self, steps: int) -> list[Call]:
        pages: list[Call] = [("fetch", {"page": page}) for page in range(1, steps)]
        return [*pages, ("submit", {"text": RESULT})]

    async def run(self, script: list[Call]) -> str:
        tools: dict[str, Callable[..., Awaitable[str]]] = {"fetch": self.shelf.fetch, "submit": submit}
        required, answers = ["fetch"], iter(script)
        messages: list[dict[str, Any]] = [{"role": "system", "content": PROMPT}, {"role": "user", "content": ASKED}]
        done: set[str] = set()

        async def ask(_: list[dict[str, Any]]) -> Call:
            return next(answers)

        while True:
            name, args = await ask(messages)
            call_id = f"call_{len(messages)}"
            function = {"id": call_id, "type": "function", "function": {"name": name, "arguments": args}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [function]})
            if name not in tools:
                text = f"there is no tool {name}"
            elif name == "submit" and not all(step in done for step in required):
                text = "not yet"
            else:
                text = await tools[name](**args)
                done.add(name)
                if name == "submit":
                    return text
            messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
