"""What the agents of all frameworks do: two tools that note that they ran, and the question."""

import json
import os
import sys
import urllib.request
from pathlib import Path

QUESTION = "Refund order 7."


def ran(line: str) -> None:
    """Note that a tool ran for real."""
    with Path("ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def look_up(order: int) -> str:
    """Look up an order.

    Args:
        order: its number
    """
    ran(f"look_up {order}")
    return f"order {order} is paid"


def refund(order: int, reason: str = "none") -> str:
    """Refund an order.

    Args:
        order: its number
        reason: why
    """
    ran(f"refund {order}")
    return f"order {order} is refunded"


def finish(answer: object) -> None:
    """Print the last answer of the model."""
    sys.stdout.write(f"{answer}\n")


def ask(messages: list[dict[str, object]]) -> dict[str, object]:
    """Ask the model, where a library has none of its own."""
    body = json.dumps({"model": "gpt-5", "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]
