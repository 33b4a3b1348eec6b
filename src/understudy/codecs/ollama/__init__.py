"""Ollama's chat."""

from understudy.codecs.ollama.codec import OllamaCodec

__all__ = ["OllamaCodec"]
