"""OpenAI chat completions."""

from offbook.codecs.openai_chat.stream import OpenAIChatCodec

__all__ = ["OpenAIChatCodec"]
