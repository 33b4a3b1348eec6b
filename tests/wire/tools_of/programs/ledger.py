"""What the tools of a program did for real, for the test that runs it, and what came of all calls."""

import json
import os
import sys
from pathlib import Path


def ran(tool: str, **arguments: object) -> None:
    """Note that a tool ran for real, with the arguments that the model gave."""
    with Path(os.environ["LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps([tool, arguments]) + "\n")


def finish(results: object) -> None:
    """Print what the calls returned, as the framework told its model or its caller."""
    sys.stdout.write(json.dumps(results, sort_keys=True) + "\n")
