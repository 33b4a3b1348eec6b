"""The agent as it must not be: a line is gone from its prompt, and it books without a look at the diary."""

from agent import LOOK_FIRST, PROMPT, answer
from offbook import Response
from offbook.messages import JsonObject
from offbook.scenarios import HandlerContext

HASTY_PROMPT = PROMPT.replace(f"{LOOK_FIRST}\n", "")


async def handle(messages: list[JsonObject], ctx: HandlerContext) -> Response:
    """As the sound agent does, but by the shorter prompt."""
    return await answer(messages, ctx, prompt=HASTY_PROMPT)
