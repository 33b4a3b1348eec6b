"""Anthropic messages."""

from offbook.codecs.anthropic.stream import CODEC

__all__ = ["CODEC"]
