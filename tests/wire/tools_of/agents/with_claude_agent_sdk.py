"""An agent of the Claude Agent SDK, with the CLI that comes with it."""

import asyncio
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool
from shop import QUESTION, finish, look_up, refund


def served(function: Any) -> Any:
    async def call(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": function(**given)}]}

    return tool(function.__name__, function.__name__, {"order": int})(call)


async def main() -> None:
    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5",
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[served(look_up), served(refund)])},
        allowed_tools=["mcp__shop__look_up", "mcp__shop__refund"],
        tools=[],
        setting_sources=[],
        env={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MAX_THINKING_TOKENS": "0"},
        extra_args={"session-id": "00000000-0000-4000-8000-000000000001", "no-session-persistence": None},
    )
    async for message in query(prompt=QUESTION, options=options):
        if isinstance(message, ResultMessage):
            finish(message.result)


asyncio.run(main())
