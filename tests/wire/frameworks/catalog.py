"""The frameworks. What they need is heavy, and loaded only where a test uses it."""

from __future__ import annotations

from importlib import import_module

from msgspec import Struct

from tests.wire.frameworks.client import Client


class Framework(Struct, frozen=True):
    """A framework: the module that has its clients, and their titles."""

    name: str
    module: str
    titles: tuple[str, ...]

    def clients(self) -> tuple[Client, ...]:
        """Its clients, in the order of their titles."""
        return import_module(f"tests.wire.frameworks.{self.module}").CLIENTS

    def client(self, title: str) -> Client:
        return self.clients()[self.titles.index(title)]


FRAMEWORKS = (
    Framework("pydantic-ai", "pydantic_ai_clients", ("OpenAI chat", "Anthropic", "Google")),
    Framework("LangChain", "langchain_clients", ("ChatOpenAI", "ChatAnthropic", "LangGraph over ChatOpenAI")),
    Framework("OpenAI Agents SDK", "agents_clients", ("responses", "chat")),
    Framework("LiteLLM", "litellm_clients", ("openai/", "anthropic/", "gemini/", "ollama_chat/")),
)
