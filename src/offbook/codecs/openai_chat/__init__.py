"""OpenAI chat completions."""

from offbook.codecs.openai_chat.stream import OpenAIChatCodec

CODEC = OpenAIChatCodec()

__all__ = ["CODEC", "OpenAIChatCodec"]
