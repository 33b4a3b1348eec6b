"""Ollama chat."""

from offbook.codecs.ollama.stream import OllamaCodec

__all__ = ["OllamaCodec"]
