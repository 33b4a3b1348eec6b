"""Record every workflow of the examples and of the package again.

Run it: python examples/make_recordings.py [folder]

The model runs on this machine and the clock stands still, so the same workflows give the same recordings, byte by byte.
"""

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from local_model import serving
from offbook import OpenAIProvider, RecordingProvider, WorkflowEngine, record_tools, run
from offbook.cli.commands.init import init
from offbook.cli.demo import refund_naive, refund_tools
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.stores.locate import open_store
from workflow_model import answer

WORKFLOWS = Path(__file__).parent / "workflows"
PACKAGE = Path(__file__).parents[1] / "src" / "offbook" / "cli"
NAMES = ("chain", "fan_out", "loop", "router", "subworkflow", "support", "tool_loop")
DEMO_FILES = ("support.yaml", "support_tools.py", "recordings/support.json")


class StillClock:
    """A clock that stands still."""

    def monotonic_s(self) -> float:
        return 0.0

    def utc_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def sleep_s(self, delay_s: float) -> None:
        return None


async def record(flow: Path, path: Path, base_url: str) -> None:
    """Run a workflow against the model, and record every call of models and tools at `path`."""
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    with record_tools((), path, clock=StillClock()) as tools:
        async with RecordingProvider(provider, path, clock=StillClock()) as recorder:
            engine = WorkflowEngine(
                flow, recorder, wrap_tools=lambda own: {name: tools.wrap(tool) for name, tool in own.items()}
            )
            result = await engine.run()
    errors = ", ".join(f"{step.id}: {step.error}" for step in result.failures)
    print(f"{path.name}: {result.status} {errors}".rstrip())


async def record_refund(path: Path, base_url: str) -> None:
    """Run the refund agent that `offbook demo` explores, and record its calls at `path`."""
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    with record_tools(refund_tools.TOOLS, path, clock=StillClock()) as tools:
        async with RecordingProvider(provider, path, clock=StillClock()) as recorder:
            print(f"{path.name}: {await refund_naive.answer(recorder, tools)}")
    found = await refund_tools.find_order.callable(order_id=42)
    after = ToolExchange(when="after refund", arguments={"order_id": 42}, result=found)
    open_store(path).update(lambda document: document.add_tool("find_order", after))


def copy_demo() -> None:
    """Update the copy of the support example that `offbook demo` replays."""
    for name in DEMO_FILES:
        shutil.copyfile(WORKFLOWS / name, PACKAGE / "demo" / name)


def main(folder: Path, *, project: Path, demo: Path) -> None:
    """Record the workflows in `folder`, and those of a project and of the demo at those paths."""
    recordings = {WORKFLOWS / f"{name}.yaml": folder / f"{name}.json" for name in NAMES}
    with serving(answer) as base_url, TemporaryDirectory() as written:
        init(written, sdk="yaml")
        for flow, path in (recordings | {Path(written) / "flow.yaml": project}).items():
            path.unlink(missing_ok=True)
            run(record(flow, path, base_url))
        demo.unlink(missing_ok=True)
        run(record_refund(demo, base_url))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        chosen = Path(sys.argv[1])
        main(chosen, project=chosen / "flow.json", demo=chosen / "refund.json")
    else:
        main(
            WORKFLOWS / "recordings",
            project=PACKAGE / "templates" / "yaml" / "recordings" / "flow.json",
            demo=PACKAGE / "demo" / "recordings" / "refund.json",
        )
        copy_demo()
