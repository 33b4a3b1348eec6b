"""LangGraph: the graph that LangChain's `create_agent` makes of a chat model and a tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.contestants.agent_loop import ASKED, PROMPT, RESULT, AgentLoop
from bench.peers import import_peer


class LangGraphLoop(AgentLoop):
    """`create_agent(…).ainvoke`; text ends the run."""

    name = "LangGraph (create_agent)"
    repeats = 20

    def __init__(self) -> None:
        super().__init__()
        self._message = import_peer("langchain_core.messages").AIMessage
        self._answers: Iterator[Any] = iter(())
        self._graph = import_peer("langchain.agents").create_agent(
            self._model(), [self.shelf.fetch], system_prompt=PROMPT
        )

    async def script(self, steps: int) -> list[Any]:
        message = self._message
        calls = [{"name": "fetch", "args": {"page": page}, "id": f"call_{page}"} for page in range(1, steps)]
        return [*(message(content="", tool_calls=[call]) for call in calls), message(content=RESULT)]

    async def run(self, script: list[Any]) -> str:
        self._answers = iter(script)
        state = {"messages": [{"role": "user", "content": ASKED}]}
        ended = await self._graph.ainvoke(state, {"recursion_limit": 4 * len(script)})
        return str(ended["messages"][-1].content)

    def _model(self) -> Any:
        """A chat model that answers with the next message of the script at once."""
        loop, outputs = self, import_peer("langchain_core.outputs")
        models = import_peer("langchain_core.language_models.chat_models")

        def result() -> Any:
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=next(loop._answers))])

        class Scripted(models.BaseChatModel):  # type: ignore[misc, name-defined]
            @property
            def _llm_type(self) -> str:
                return "scripted"

            def bind_tools(self, tools: Any, **_: Any) -> Any:
                return self

            def _generate(self, messages: Any, *_: Any, **__: Any) -> Any:
                return result()

            async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> Any:
                return result()

        return Scripted()
