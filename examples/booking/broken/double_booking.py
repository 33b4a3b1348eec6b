"""The agent as it must not be: it repeats a booking that failed, although it may have been made all the same."""

from agent import handle as sound_handle
from offbook import Response
from offbook.messages import JsonObject
from offbook.scenarios import HandlerContext


async def handle(messages: list[JsonObject], ctx: HandlerContext) -> Response | JsonObject:
    """As the sound agent does, but a booking that failed is tried once more, at once."""
    if _has_failed_to_book(messages) and not _has_failed_to_book(messages[:-2]):
        return messages[-2]
    return await sound_handle(messages, ctx)


def _has_failed_to_book(messages: list[JsonObject]) -> bool:
    last = messages[-1]
    return last.get("name") == "create_booking" and '"error"' in last["content"]
