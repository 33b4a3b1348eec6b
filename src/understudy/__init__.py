"""Stands in for the models and tools an LLM agent talks to, so that agents can be tested deterministically."""

from importlib import import_module

from understudy.version import __version__

TYPE_CHECKING = False  # type checkers take it for true; importing typing for it would double the cost of a bare import
if TYPE_CHECKING:
    from understudy.clock import run
    from understudy.errors import (
        AllProvidersFailedError,
        Attempt,
        BreakerOpenError,
        BudgetExceededError,
        DeadlineExceededError,
        EventLoopError,
        InputError,
        MalformedResponseError,
        NoProviderError,
        ProviderConnectionError,
        ProviderError,
        ProviderTimeoutError,
        RateLimitError,
        RecordingFormatError,
        RecordingMismatchError,
        RequestError,
        StreamInterruptedError,
        ToolFaultError,
        UnderstudyError,
    )
    from understudy.events import MemorySink, Sinks
    from understudy.faults import (
        At,
        Chaos,
        ConnectionReset,
        ContentFilter,
        ContextOverflow,
        EmptyResponse,
        FaultInjector,
        FaultPlan,
        HttpError,
        InvalidToolArgs,
        MalformedResponse,
        PartialResponse,
        PlannedFault,
        StreamStall,
        StreamTruncate,
        Timeout,
        ToolCallFault,
        UnknownTool,
        chaos,
        parse_fault,
    )
    from understudy.gateway.breaker import BreakerPolicy
    from understudy.gateway.gateway import ProviderGateway
    from understudy.gateway.rate_limit import RateLimit
    from understudy.gateway.retry import RetryPolicy
    from understudy.messages import (
        Message,
        ReasoningDelta,
        Reply,
        Request,
        Response,
        StreamEnd,
        StreamRestart,
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

_HOMES = {
    "understudy.clock": ["run"],
    "understudy.errors": [
        "AllProvidersFailedError",
        "Attempt",
        "BreakerOpenError",
        "BudgetExceededError",
        "DeadlineExceededError",
        "EventLoopError",
        "InputError",
        "MalformedResponseError",
        "NoProviderError",
        "ProviderConnectionError",
        "ProviderError",
        "ProviderTimeoutError",
        "RateLimitError",
        "RecordingFormatError",
        "RecordingMismatchError",
        "RequestError",
        "StreamInterruptedError",
        "ToolFaultError",
        "UnderstudyError",
    ],
    "understudy.events": ["MemorySink", "Sinks"],
    "understudy.faults": [
        "At",
        "Chaos",
        "ConnectionReset",
        "ContentFilter",
        "ContextOverflow",
        "EmptyResponse",
        "FaultInjector",
        "FaultPlan",
        "HttpError",
        "InvalidToolArgs",
        "MalformedResponse",
        "PartialResponse",
        "PlannedFault",
        "StreamStall",
        "StreamTruncate",
        "Timeout",
        "ToolCallFault",
        "UnknownTool",
        "chaos",
        "parse_fault",
    ],
    "understudy.gateway.breaker": ["BreakerPolicy"],
    "understudy.gateway.gateway": ["ProviderGateway"],
    "understudy.gateway.rate_limit": ["RateLimit"],
    "understudy.gateway.retry": ["RetryPolicy"],
    "understudy.messages": [
        "Message",
        "ReasoningDelta",
        "Reply",
        "Request",
        "Response",
        "StreamEnd",
        "StreamRestart",
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
    "AllProvidersFailedError",
    "AnthropicProvider",
    "At",
    "Attempt",
    "BreakerOpenError",
    "BreakerPolicy",
    "BudgetExceededError",
    "Chaos",
    "ConnectionReset",
    "ContentFilter",
    "ContextOverflow",
    "DeadlineExceededError",
    "EmptyResponse",
    "EventLoopError",
    "FaultInjector",
    "FaultPlan",
    "GoogleProvider",
    "HttpError",
    "HttpOptions",
    "InputError",
    "InvalidToolArgs",
    "MalformedResponse",
    "MalformedResponseError",
    "MemorySink",
    "Message",
    "MockProvider",
    "NoProviderError",
    "NormaliseRules",
    "OllamaProvider",
    "OpenAIProvider",
    "PartialResponse",
    "PlannedFault",
    "Price",
    "PriceTable",
    "Provider",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderGateway",
    "ProviderTimeoutError",
    "RateLimit",
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
    "RetryPolicy",
    "Sinks",
    "StreamEnd",
    "StreamInterruptedError",
    "StreamRestart",
    "StreamStall",
    "StreamTruncate",
    "TextDelta",
    "Timeout",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallFault",
    "ToolFaultError",
    "UnderstudyError",
    "UnknownTool",
    "Usage",
    "__version__",
    "chaos",
    "parse_fault",
    "run",
]
