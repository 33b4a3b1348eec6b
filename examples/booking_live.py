"""Run the scenarios of the booking agent live, against a model on this machine.

Run it: python examples/booking_live.py [arguments of `offbook test`]

Use it for agents without a recording: python examples/booking_live.py --agent booking --agent double_booking
"""

import os
import subprocess
import sys
from pathlib import Path

from booking_model import answer
from local_model import serving

PROJECT = Path(__file__).parent / "booking"


def main(arguments: list[str]) -> int:
    """Run `offbook test` and return its exit code."""
    command = [str(Path(sys.executable).with_name("offbook")), "test", *arguments]
    with serving(answer) as base_url:
        variables = os.environ | {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"}
        return subprocess.run(command, cwd=PROJECT, env=variables, check=False).returncode  # noqa: S603 - our own command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
