"""Stands in for the models and tools an LLM agent talks to, so that agents can be tested deterministically."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.clock import run
    from understudy.errors import (
        EventLoopError,
        InputError,
        MalformedResponseError,
        ProviderConnectionError,
        ProviderError,
        ProviderTimeoutError,
        RateLimitError,
        RecordingFormatError,
        RecordingMismatchError,
        RequestError,
        UnderstudyError,
    )
    from understudy.events import MemorySink
    from understudy.messages import (
        Message,
        ReasoningDelta,
        Reply,
        Request,
        Response,
        StreamEnd,
        TextDelta,
        ToolCall,
        ToolCallDelta,
        Usage,
    )
    from understudy.providers.catalog import AnthropicProvider, GoogleProvider, OllamaProvider, OpenAIProvider
    from understudy.providers.http import HttpOptions
    from understudy.providers.pricing import Price, PriceTable
    from understudy.providers.provider import Provider
    from understudy.recording.normalise import NormaliseRules
    from understudy.recording.recorder import RecordingProvider
    from understudy.recording.redaction import Redactor
    from understudy.recording.replay import MockProvider

__version__ = "0.1.0"

_HOMES = {
    "understudy.clock": ["run"],
    "understudy.errors": [
        "EventLoopError",
        "InputError",
        "MalformedResponseError",
        "ProviderConnectionError",
        "ProviderError",
        "ProviderTimeoutError",
        "RateLimitError",
        "RecordingFormatError",
        "RecordingMismatchError",
        "RequestError",
        "UnderstudyError",
    ],
    "understudy.events": ["MemorySink"],
    "understudy.messages": [
        "Message",
        "ReasoningDelta",
        "Reply",
        "Request",
        "Response",
        "StreamEnd",
        "TextDelta",
        "ToolCall",
        "ToolCallDelta",
        "Usage",
    ],
    "understudy.providers.catalog": ["AnthropicProvider", "GoogleProvider", "OllamaProvider", "OpenAIProvider"],
    "understudy.providers.http": ["HttpOptions"],
    "understudy.providers.pricing": ["Price", "PriceTable"],
    "understudy.providers.provider": ["Provider"],
    "understudy.recording.normalise": ["NormaliseRules"],
    "understudy.recording.recorder": ["RecordingProvider"],
    "understudy.recording.redaction": ["Redactor"],
    "understudy.recording.replay": ["MockProvider"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load what is asked for when it is asked for: a bare import costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AnthropicProvider",
    "EventLoopError",
    "GoogleProvider",
    "HttpOptions",
    "InputError",
    "MalformedResponseError",
    "MemorySink",
    "Message",
    "MockProvider",
    "NormaliseRules",
    "OllamaProvider",
    "OpenAIProvider",
    "Price",
    "PriceTable",
    "Provider",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderTimeoutError",
    "RateLimitError",
    "ReasoningDelta",
    "RecordingFormatError",
    "RecordingMismatchError",
    "RecordingProvider",
    "Redactor",
    "Reply",
    "Request",
    "RequestError",
    "Response",
    "StreamEnd",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "UnderstudyError",
    "Usage",
    "run",
]
