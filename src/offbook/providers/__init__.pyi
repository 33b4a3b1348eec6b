"""Providers: the interface, the HTTP provider, and one for each vendor."""

from offbook.providers.catalog import AnthropicProvider as AnthropicProvider
from offbook.providers.catalog import BedrockAnthropicProvider as BedrockAnthropicProvider
from offbook.providers.catalog import BedrockProvider as BedrockProvider
from offbook.providers.catalog import GoogleProvider as GoogleProvider
from offbook.providers.catalog import OllamaProvider as OllamaProvider
from offbook.providers.catalog import OpenAIProvider as OpenAIProvider
from offbook.providers.catalog import OpenAIResponsesProvider as OpenAIResponsesProvider
from offbook.providers.catalog import read_response as read_response
from offbook.providers.http import HttpOptions as HttpOptions
from offbook.providers.pricing import Price as Price
from offbook.providers.pricing import PriceTable as PriceTable
from offbook.providers.pricing import PriceTier as PriceTier
from offbook.providers.provider import Provider as Provider
