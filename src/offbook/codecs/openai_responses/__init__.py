"""OpenAI responses."""

from offbook.codecs.openai_responses.stream import OpenAIResponsesCodec

__all__ = ["OpenAIResponsesCodec"]
