"""OpenAI responses."""

from offbook.codecs.openai_responses.codec import OpenAIResponsesCodec

__all__ = ["OpenAIResponsesCodec"]
