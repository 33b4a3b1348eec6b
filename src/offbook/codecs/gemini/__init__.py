"""Gemini generateContent."""

from offbook.codecs.gemini.stream import GeminiCodec

CODEC = GeminiCodec()

__all__ = ["CODEC", "GeminiCodec"]
