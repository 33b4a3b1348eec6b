"""Anthropic messages."""

from offbook.codecs.anthropic.stream import AnthropicCodec

__all__ = ["AnthropicCodec"]
