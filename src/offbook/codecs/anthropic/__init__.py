"""Anthropic messages."""

from offbook.codecs.anthropic.stream import AnthropicCodec

CODEC = AnthropicCodec()

__all__ = ["CODEC", "AnthropicCodec"]
