"""OpenAI chat completions."""

from offbook.codecs.openai_chat.codec import OpenAIChatCodec

__all__ = ["OpenAIChatCodec"]
