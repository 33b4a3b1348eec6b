"""OpenAI chat completions."""

from understudy.codecs.openai_chat.codec import OpenAIChatCodec

__all__ = ["OpenAIChatCodec"]
