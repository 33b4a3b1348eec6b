"""A broken agent: it repeats a failed booking, which may have been made nevertheless."""

from agent import handle as sound_handle
from offbook import Response
from offbook.messages import JsonObject
from offbook.scenarios import HandlerContext


async def handle(messages: list[JsonObject], ctx: HandlerContext) -> Response | JsonObject:
    """Answer like the correct agent, but repeat a failed booking once, immediately."""
    if _has_failed_to_book(messages) and not _has_failed_to_book(messages[:-2]):
        return messages[-2]
    return await sound_handle(messages, ctx)


def _has_failed_to_book(messages: list[JsonObject]) -> bool:
    last = messages[-1]
    return last.get("name") == "create_booking" and '"error"' in last["content"]
