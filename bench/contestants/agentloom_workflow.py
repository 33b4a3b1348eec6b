"""AgentLoom's workflow engine, on its MockProvider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.contestants.workflow_engine import EngineContestant, Shape
from bench.peers import import_peer
from bench.workload import COST_USD, LATENCY_MS, MODEL, USAGE

NO_LIMIT = 10**12


class AgentLoomEngine(EngineContestant):
    """WorkflowEngine; answers are found by what is asked, as its steps do not tell the gateway who they are.

    Raises:
        ImportError: it is not installed.
    """

    name = "AgentLoom"
    most_steps = 100

    def __init__(self, shape: Shape, folder: Path) -> None:
        super().__init__(shape)
        self._parser, self._engine = import_peer("agentloom.core.parser"), import_peer("agentloom.core.engine")
        self._gateways, self._mock = import_peer("agentloom.providers.gateway"), import_peer("agentloom.providers.mock")
        self._asked = [[{"role": "user", "content": prompt}] for prompt in shape.prompts]
        keys = [self._mock.prompt_hash(messages) for messages in self._asked]
        self._file = folder / f"agentloom-{shape.kind}-{shape.steps}.json"
        self._file.write_text(
            json.dumps({key: _entry(answer) for key, answer in zip(keys, shape.answers, strict=True)})
        )

    def open(self) -> None:
        self._gateway = self._gateways.ProviderGateway()
        provider = self._mock.MockProvider(responses_file=self._file)
        self._gateway.register(provider, max_rpm=NO_LIMIT, max_tpm=NO_LIMIT)

    def make(self) -> Any:
        definition = self._parser.WorkflowParser.from_dict(self._declared)
        return self._engine.WorkflowEngine(definition, provider_gateway=self._gateway)

    async def run(self, engine: Any) -> Any:
        return await engine.run()

    async def call(self) -> None:
        for messages in self._asked:
            await self._gateway.complete(messages=messages, model=MODEL, temperature=None, max_tokens=None)

    def outputs(self, result: Any) -> list[str]:
        return [result.step_results[f"s{index}"].output for index in range(len(self._asked))]


def _entry(answer: str) -> dict[str, object]:
    usage = {name: getattr(USAGE, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    return {
        "content": answer,
        "model": MODEL,
        "usage": usage,
        "cost_usd": COST_USD,
        "latency_ms": LATENCY_MS,
        "finish_reason": "stop",
    }
