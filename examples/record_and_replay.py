"""Record two calls to a model, stop the model, replay them strictly, and see a changed prompt refused.

Run it: python examples/record_and_replay.py [recording]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

import understudy
from local_model import serving
from understudy import MockProvider, OpenAIProvider, Provider, RecordingMismatchError, RecordingProvider, TextDelta

console = Console(highlight=False)
MODEL = "gpt-4o-mini"
NEXT = """  look at a recording:       .venv/bin/understudy recording show examples/recordings/capital_and_poem.json
  is it fit to be committed? .venv/bin/understudy recording check examples/recordings/capital_and_poem.json
  replay in your own tests:  docs/replay.md"""


async def agent(provider: Provider, question: str = "What is the capital of France?") -> None:
    """The code under test: it asks one question and streams one poem."""
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
    console.print(f"  served   {len(mock.calls)} calls, {len(mock.unused())} entries left unused")


async def replay_changed(path: Path) -> None:
    try:
        await agent(MockProvider(path, strict=True), question="What is the capital of Spain?")
    except RecordingMismatchError as error:
        console.print(f"  {str(error).partition(': ')[2]}", markup=False)


def main(path: Path) -> None:
    with serving() as base_url:
        console.rule("1  record: a model on this machine answers, every call is kept", align="left")
        understudy.run(record(path, base_url))
    console.rule("2  replay: the model is stopped; no network, no key, no cost, and no waiting", align="left")
    understudy.run(replay(path), virtual_time=True)
    console.rule("3  a changed prompt is refused, not answered with what no longer fits", align="left")
    understudy.run(replay_changed(path))
    console.rule("What to try next", align="left")
    console.print(NEXT, markup=False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as folder:
            main(Path(folder) / "demo.json")
