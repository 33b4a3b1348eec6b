"""Anthropic messages."""

from understudy.codecs.anthropic.codec import AnthropicCodec

__all__ = ["AnthropicCodec"]
