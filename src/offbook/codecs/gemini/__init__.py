"""Gemini generateContent."""

from offbook.codecs.gemini.stream import CODEC

__all__ = ["CODEC"]
