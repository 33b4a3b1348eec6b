"""The OpenAI Agents SDK: its Runner on a model that asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.contestants.agent_loop import ASKED, PROMPT, RESULT, AgentLoop
from bench.peers import import_peer


class OpenAIAgentsLoop(AgentLoop):
    """`Runner.run` without tracing; text ends the run."""

    name = "OpenAI Agents SDK Runner"
    repeats = 20

    def __init__(self) -> None:
        super().__init__()
        self._agents = agents = import_peer("agents")
        self._responses = import_peer("openai.types.responses")
        self._answers: Iterator[Any] = iter(())
        tool = agents.function_tool(self.shelf.fetch)
        self._agent = agents.Agent(name="reader", instructions=PROMPT, tools=[tool], model=self._model())
        self._config = agents.RunConfig(tracing_disabled=True)

    async def script(self, steps: int) -> list[Any]:
        outputs = [self._call(page) for page in range(1, steps)] + [self._text()]
        usage = self._agents.Usage
        return [
            self._agents.ModelResponse(output=[output], usage=usage(requests=1), response_id=None) for output in outputs
        ]

    async def run(self, script: list[Any]) -> str:
        self._answers = iter(script)
        ended = await self._agents.Runner.run(self._agent, ASKED, max_turns=len(script), run_config=self._config)
        return str(ended.final_output)

    def _call(self, page: int) -> Any:
        return self._responses.ResponseFunctionToolCall(
            type="function_call", name="fetch", arguments=f'{{"page":{page}}}', call_id=f"call_{page}"
        )

    def _text(self) -> Any:
        text = self._responses.ResponseOutputText(type="output_text", text=RESULT, annotations=[])
        return self._responses.ResponseOutputMessage(
            id="end", type="message", role="assistant", status="completed", content=[text]
        )

    def _model(self) -> Any:
        """A model that answers with the next response of the script at once."""
        loop = self

        class Scripted(self._agents.Model):  # type: ignore[misc, name-defined]
            async def get_response(self, *_: Any, **__: Any) -> Any:
                return next(loop._answers)

            def stream_response(self, *_: Any, **__: Any) -> Any:
                raise NotImplementedError

        return Scripted()
