"""The frameworks. What they need is heavy, and loaded only where a test uses it."""

from __future__ import annotations

from importlib import import_module

from msgspec import Struct

from tests.wire.frameworks.client import Client


class Framework(Struct, frozen=True):
    """A framework: the module that has its clients, their titles, and the packages that they come in.

    Tests of one `group` share what they load.
    """

    name: str
    group: str
    module: str
    titles: tuple[str, ...]
    packages: tuple[str, ...]

    def clients(self) -> tuple[Client, ...]:
        """Its clients, in the order of their titles."""
        return import_module(f"tests.wire.frameworks.{self.module}").CLIENTS


PYDANTIC_AI = Framework(
    "pydantic-ai",
    "pydantic_ai",
    "pydantic_ai_clients",
    ("OpenAI chat", "Anthropic", "Google"),
    ("pydantic-ai-slim",),
)
LANGCHAIN = Framework(
    "LangChain",
    "langchain",
    "langchain_clients",
    ("ChatOpenAI", "ChatAnthropic"),
    ("langchain-openai", "langchain-anthropic"),
)
LANGGRAPH = Framework("LangGraph", "langchain", "langgraph_clients", ("over ChatOpenAI",), ("langgraph",))
AGENTS_SDK = Framework("OpenAI Agents SDK", "agents", "agents_clients", ("responses", "chat"), ("openai-agents",))
LITELLM = Framework(
    "LiteLLM", "litellm", "litellm_clients", ("openai/", "anthropic/", "gemini/", "ollama_chat/"), ("litellm",)
)
FRAMEWORKS = (PYDANTIC_AI, LANGCHAIN, LANGGRAPH, AGENTS_SDK, LITELLM)
