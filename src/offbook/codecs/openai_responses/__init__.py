"""OpenAI responses."""

from offbook.codecs.openai_responses.stream import CODEC

__all__ = ["CODEC"]
