"""Record a workflow on the command line against a model on this machine, stop the model, and replay the recording.

Run it: python examples/record_then_replay.py
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from local_model import serving
from workflow_model import answer

FLOW = str(Path(__file__).parent / "workflows" / "tool_loop.yaml")


def offbook(*arguments: str, **variables: str) -> None:
    """Print a command and run it."""
    print(f"$ offbook {shlex.join(arguments)}", flush=True)
    command = [str(Path(sys.executable).with_name("offbook")), *arguments]
    subprocess.run(command, check=True, env=os.environ | variables)  # noqa: S603 - our own command


def main(folder: Path) -> None:
    os.chdir(folder)
    with serving(answer) as base_url:
        offbook("run", FLOW, "--record", "recording.json", OPENAI_BASE_URL=base_url, OPENAI_API_KEY="none")
    print("The model is stopped.")
    offbook("replay", FLOW, "--recording", "recording.json", "--strict-unused")
    offbook("recording", "show", "recording.json")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
