"""offbook's workflow engine, on strict replay."""

from __future__ import annotations

from bench.contestants.workflow_engine import NAME, EngineContestant, Shape
from bench.workload import COST_USD, LATENCY_MS, MODEL, USAGE
from offbook import MockProvider, ProviderGateway, Request
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.fingerprint import fingerprint
from offbook.workflow import WorkflowEngine, WorkflowResult
from offbook.workflow.file.load import read_definition


class OffbookEngine(EngineContestant):
    """WorkflowEngine, with a gateway as it is by default; the recording is in memory."""

    name = "offbook"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._requests = [_request(index, prompt) for index, prompt in enumerate(shape.prompts)]
        self._document = Document()
        for request, answer in zip(self._requests, shape.answers, strict=True):
            self._document.add(str(request.step_id), _exchange(request, answer))

    def open(self) -> None:
        provider = MockProvider(responses=self._document, strict=True)
        assert provider.answers(self._requests[0])
        self._gateway = ProviderGateway()
        self._gateway.register(provider)

    def make(self) -> WorkflowEngine:
        return WorkflowEngine(read_definition(self._declared), self._gateway)

    async def run(self, engine: WorkflowEngine) -> WorkflowResult:
        return await engine.run()

    async def call(self) -> None:
        send = self._gateway.send
        for request in self._requests:
            await (await send(request)).collect()

    def outputs(self, result: WorkflowResult) -> list[str]:
        return [result.steps[str(request.step_id)].output for request in self._requests]


def _request(index: int, prompt: str) -> Request:
    return Request(({"role": "user", "content": prompt},), MODEL, step_id=f"s{index}", workflow=NAME)


def _exchange(request: Request, answer: str) -> Exchange:
    return Exchange(
        content=answer,
        model=MODEL,
        provider="openai",
        usage=USAGE,
        cost_usd=COST_USD,
        latency_ms=LATENCY_MS,
        request_hash=fingerprint(request),
    )
