"""Record two calls to a model, stop the model, replay them strictly, reject a changed prompt, and inject faults.

Run it: python examples/record_and_replay.py [recording]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

import offbook
from local_model import serving
from offbook import (
    At,
    FaultInjector,
    FaultPlan,
    MemorySink,
    MockProvider,
    OpenAIProvider,
    Provider,
    ProviderGateway,
    RecordingMismatchError,
    RecordingProvider,
    RetryPolicy,
    TextDelta,
)
from offbook.events import RetryScheduled
from offbook.faults import HttpError, Timeout

console = Console(highlight=False)
MODEL = "gpt-4o-mini"
NEXT = """  look at a recording:       .venv/bin/offbook recording show examples/recordings/capital_and_poem.json
  check it before a commit:  .venv/bin/offbook recording check examples/recordings/capital_and_poem.json
  replay in your own tests:  docs/replay.md
  break it on purpose:       docs/faults.md"""


async def agent(provider: Provider, question: str = "What is the capital of France?") -> None:
    """The code under test: it asks a question and streams a poem."""
    response = await provider.complete([{"role": "user", "content": question}], MODEL, step_id="capital")
    console.print(
        f"  capital  [bold]{response.content}[/]  ({response.usage.total_tokens} tokens, {response.cost_usd:.6f} $)"
    )
    console.print("  poem     ", end="")
    async for event in await provider.stream([{"role": "user", "content": "A poem, please"}], MODEL, step_id="poem"):
        if isinstance(event, TextDelta):
            console.print(event.text.replace("\n", " / "), end="", style="bold")
    console.print()


async def record(path: Path, base_url: str) -> None:
    async with RecordingProvider(OpenAIProvider(base_url=base_url, api_key="none"), path) as recorder:
        await agent(recorder)


async def replay(path: Path) -> None:
    mock = MockProvider(path, strict=True, latency_model="replay")
    await agent(mock)
    console.print(f"  served   {len(mock.calls)} calls, {len(mock.unused())} entries unused")


async def replay_changed(path: Path) -> None:
    try:
        await agent(MockProvider(path, strict=True), question="What is the capital of Spain?")
    except RecordingMismatchError as error:
        console.print(f"  {str(error).partition(': ')[2]}", markup=False, soft_wrap=True)


async def replay_broken(path: Path) -> None:
    """Make the first two attempts of a step fail; the gateway retries, and virtual time skips the waits."""
    plan = FaultPlan(
        [
            At(step_id="capital", attempt=1).fail(HttpError(429, headers={"Retry-After": "30"}, body="slow down")),
            At(step_id="capital", attempt=2).fail(Timeout(after_ms=5000)),
        ]
    )
    sink = MemorySink()
    gateway = ProviderGateway(retry=RetryPolicy(max_retries=3), sink=sink)
    gateway.register(FaultInjector(MockProvider(path, strict=True), plan))
    await agent(gateway)
    for event in sink.events:
        if isinstance(event, RetryScheduled):
            console.print(f"  attempt {event.attempt} of {event.step_id}: {event.error}, waited {event.wait_s:.1f} s")


def main(path: Path) -> None:
    with serving() as base_url:
        console.rule("1  record: a model on this machine answers, and every call is recorded", align="left")
        offbook.run(record(path, base_url))
    console.rule("2  replay: the model is stopped; no network, no key, no cost, and no waiting", align="left")
    offbook.run(replay(path), virtual_time=True)
    console.rule("3  a changed prompt is rejected, not answered with an old response", align="left")
    offbook.run(replay_changed(path))
    console.rule("4  two faults on purpose: the gateway retries, without waiting", align="left")
    offbook.run(replay_broken(path), virtual_time=True)
    console.rule("What to try next", align="left")
    console.print(NEXT, markup=False, soft_wrap=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as folder:
            main(Path(folder) / "demo.json")
