"""The vendors that offbook knows, and the codec of each protocol by name."""

from offbook.codecs.anthropic import AnthropicCodec
from offbook.codecs.base import Codec
from offbook.codecs.gemini import GeminiCodec
from offbook.codecs.ollama import OllamaCodec
from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.codecs.openai_responses import OpenAIResponsesCodec

_ALL: tuple[Codec, ...] = (OpenAIChatCodec(), OpenAIResponsesCodec(), AnthropicCodec(), GeminiCodec(), OllamaCodec())
CODECS: dict[str, Codec] = {codec.name: codec for codec in _ALL}
