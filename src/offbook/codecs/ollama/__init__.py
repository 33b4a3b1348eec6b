"""Ollama chat."""

from offbook.codecs.ollama.stream import OllamaCodec

CODEC = OllamaCodec()

__all__ = ["CODEC", "OllamaCodec"]
