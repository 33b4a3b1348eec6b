"""OpenAI responses."""

from offbook.codecs.openai_responses.stream import OpenAIResponsesCodec

CODEC = OpenAIResponsesCodec()

__all__ = ["CODEC", "OpenAIResponsesCodec"]
