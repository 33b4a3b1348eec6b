"""How large messages are, in tokens: estimated from their length where nobody counts."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeAlias

from offbook.agent.message import Message

CountTokens: TypeAlias = Callable[[Message], int]
Size: TypeAlias = Callable[[Sequence[Message]], int]

CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
"""What a message costs beside its text: its role, and the marks around it."""


def estimated_tokens(message: Message) -> int:
    """About how many tokens a message is, from the characters of its content, tool names and arguments."""
    chars = len(message.content)
    for call in message.tool_calls:
        chars += len(call.name) + len(str(call.args))
    return TOKENS_PER_MESSAGE + ceil(chars / CHARS_PER_TOKEN)
