"""Gemini's generateContent."""

from understudy.codecs.gemini.codec import GeminiCodec

__all__ = ["GeminiCodec"]
