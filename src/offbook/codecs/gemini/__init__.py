"""Gemini generateContent."""

from offbook.codecs.gemini.stream import GeminiCodec

__all__ = ["GeminiCodec"]
