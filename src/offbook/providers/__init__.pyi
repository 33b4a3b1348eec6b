"""Providers: the interface, the HTTP provider, and one for each vendor."""

from offbook.providers.http import AnthropicProvider as AnthropicProvider
from offbook.providers.http import BedrockAnthropicProvider as BedrockAnthropicProvider
from offbook.providers.http import BedrockProvider as BedrockProvider
from offbook.providers.http import GoogleProvider as GoogleProvider
from offbook.providers.http import HttpOptions as HttpOptions
from offbook.providers.http import OllamaProvider as OllamaProvider
from offbook.providers.http import OpenAIProvider as OpenAIProvider
from offbook.providers.http import OpenAIResponsesProvider as OpenAIResponsesProvider
from offbook.providers.http import read_response as read_response
from offbook.providers.pricing import Price as Price
from offbook.providers.pricing import PriceTable as PriceTable
from offbook.providers.pricing import PriceTier as PriceTier
from offbook.providers.provider import CallOptions as CallOptions
from offbook.providers.provider import Provider as Provider
