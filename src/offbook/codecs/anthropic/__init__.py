"""Anthropic messages."""

from offbook.codecs.anthropic.codec import AnthropicCodec

__all__ = ["AnthropicCodec"]
