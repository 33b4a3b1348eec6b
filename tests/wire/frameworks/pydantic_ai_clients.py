"""pydantic-ai with the models of three vendors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable

import httpx2
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.wire.frameworks.client import PATIENCE_S, Client, Report
from tests.wire.frameworks.scripts import QUESTION


def _http_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=False, timeout=PATIENCE_S)


class PydanticAi(Client):
    """An agent of pydantic-ai's."""

    output = Report

    @abstractmethod
    def model(self, url: str, http_client: httpx2.AsyncClient) -> Model:
        """The model at `url`."""

    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        async with _http_client() as http_client:
            agent = Agent(self.model(url, http_client), model_settings={"timeout": timeout_s})
            return (await agent.run(QUESTION)).output

    async def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        async with _http_client() as http_client:
            agent = Agent(self.model(url, http_client), model_settings={"timeout": timeout_s})
            async with agent.run_stream(QUESTION) as run:
                async for piece in run.stream_text(delta=True, debounce_by=None):
                    yield piece

    async def use_tools(self, url: str, weather: Callable[[str], str], *, is_streamed: bool) -> str:
        async with _http_client() as http_client:
            agent = Agent(self.model(url, http_client))
            agent.tool_plain(weather, name="weather")
            if not is_streamed:
                return (await agent.run(QUESTION)).output
            async with agent.run_stream(QUESTION) as run:
                return await run.get_output()

    async def report(self, url: str) -> Report:
        async with _http_client() as http_client:
            return (await Agent(self.model(url, http_client), output_type=self.output).run(QUESTION)).output


class OpenAI(PydanticAi):
    title = "OpenAI chat"
    output = NativeOutput(Report)

    def model(self, url: str, http_client: httpx2.AsyncClient) -> Model:
        provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none", http_client=http_client)
        return OpenAIChatModel("gpt-5", provider=provider)


class Anthropic(PydanticAi):
    title = "Anthropic"
    report_script = "report by final_result"

    def model(self, url: str, http_client: httpx2.AsyncClient) -> Model:
        provider = AnthropicProvider(base_url=url, api_key="none", http_client=http_client)
        return AnthropicModel("claude", provider=provider)


class Google(PydanticAi):
    title = "Google"
    output = NativeOutput(Report)

    def model(self, url: str, http_client: httpx2.AsyncClient) -> Model:
        provider = GoogleProvider(base_url=url, api_key="none", http_client=http_client)
        return GoogleModel("gemini-2.5-flash", provider=provider)


CLIENTS = (OpenAI(), Anthropic(), Google())
