"""The codecs by name."""

from understudy.codecs.anthropic import AnthropicCodec
from understudy.codecs.codec import Codec
from understudy.codecs.gemini import GeminiCodec
from understudy.codecs.ollama import OllamaCodec
from understudy.codecs.openai_chat import OpenAIChatCodec
from understudy.codecs.openai_responses import OpenAIResponsesCodec

_ALL: tuple[Codec, ...] = (OpenAIChatCodec(), OpenAIResponsesCodec(), AnthropicCodec(), GeminiCodec(), OllamaCodec())
CODECS: dict[str, Codec] = {codec.name: codec for codec in _ALL}
