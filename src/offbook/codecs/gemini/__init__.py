"""Gemini's generateContent."""

from offbook.codecs.gemini.codec import GeminiCodec

__all__ = ["GeminiCodec"]
