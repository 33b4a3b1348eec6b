"""The OpenAI Agents SDK with both protocols of OpenAI's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import httpx2
from agents import (
    Agent,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from openai import AsyncOpenAI

from tests.wire.frameworks.client import PATIENCE_S, Client, Report
from tests.wire.frameworks.scripts import QUESTION

UNTRACED = RunConfig(tracing_disabled=True)


class AgentsSdk(Client):
    """An agent of the SDK's."""

    kind: ClassVar[type[OpenAIResponsesModel | OpenAIChatCompletionsModel]]

    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        async with _openai(url, timeout_s) as openai:
            return (await Runner.run(self._agent(openai), QUESTION, run_config=UNTRACED)).final_output

    async def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        async with _openai(url, timeout_s) as openai:
            run = Runner.run_streamed(self._agent(openai), QUESTION, run_config=UNTRACED)
            async for event in run.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    yield event.data.delta

    async def use_tools(self, url: str, weather: Callable[[str], str], *, is_streamed: bool) -> str:
        async with _openai(url, PATIENCE_S) as openai:
            agent = self._agent(openai, tools=[function_tool(weather, name_override="weather")])
            if not is_streamed:
                return (await Runner.run(agent, QUESTION, run_config=UNTRACED)).final_output
            run = Runner.run_streamed(agent, QUESTION, run_config=UNTRACED)
            async for _ in run.stream_events():
                pass
            return run.final_output

    async def report(self, url: str) -> Report:
        async with _openai(url, PATIENCE_S) as openai:
            agent = self._agent(openai, output_type=Report)
            return (await Runner.run(agent, QUESTION, run_config=UNTRACED)).final_output

    def _agent(self, openai: AsyncOpenAI, **more: Any) -> Agent:
        model: Model = self.kind("gpt-5", openai_client=openai)
        return Agent(name="Test", instructions="Be brief.", model=model, **more)


def _openai(url: str, timeout_s: float) -> AsyncOpenAI:
    http_client = httpx2.AsyncClient(verify=False)
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=timeout_s, http_client=http_client)


class Responses(AgentsSdk):
    title = "responses"
    kind = OpenAIResponsesModel


class Chat(AgentsSdk):
    title = "chat"
    kind = OpenAIChatCompletionsModel


CLIENTS = (Responses(), Chat())
