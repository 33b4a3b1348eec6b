"""Ollama's chat."""

from offbook.codecs.ollama.codec import OllamaCodec

__all__ = ["OllamaCodec"]
