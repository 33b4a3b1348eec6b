"""A broken agent: a line is missing in its prompt, and it books without checking the diary."""

from agent import LOOK_FIRST, PROMPT, answer
from offbook import Response
from offbook.messages import JsonObject
from offbook.scenarios import HandlerContext

HASTY_PROMPT = PROMPT.replace(f"{LOOK_FIRST}\n", "")


async def handle(messages: list[JsonObject], ctx: HandlerContext) -> Response:
    """Answer like the correct agent, but with the shorter prompt."""
    return await answer(messages, ctx, prompt=HASTY_PROMPT)
