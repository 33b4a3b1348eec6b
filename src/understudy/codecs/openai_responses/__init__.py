"""OpenAI responses."""

from understudy.codecs.openai_responses.codec import OpenAIResponsesCodec

__all__ = ["OpenAIResponsesCodec"]
