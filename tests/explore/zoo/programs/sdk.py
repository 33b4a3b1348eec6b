"""An agent with a vendor's SDK for Python: `sdk.py AGENT defect|sound`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

GAVE_UP = 3
QUESTION = [{"role": "user", "content": "Where is order 42?"}]


class GaveUpError(Exception):
    """The program cannot go on, and says so by its exit code."""


def send_mail(text):
    """Mail the customer: into the ledger, and reported as users would."""
    import offbook  # noqa: PLC0415 - only where something is reported

    with Path(os.environ["ZOO_LEDGER"]).open("a") as ledger:
        ledger.write(json.dumps({"tool": "send_mail", "arguments": {"text": text}, "run": os.getpid()}) + "\n")
    offbook.effect("send_mail", text=text)
    return text


def mails_whatever_comes(*, sound):
    """Mails what OpenAI's client returns, be it None or cut; the twin looks at it first."""
    from openai import OpenAI, OpenAIError  # noqa: PLC0415 - it takes a second

    try:
        answer = OpenAI(max_retries=1, timeout=0.8).chat.completions.create(model="gpt-4o", messages=QUESTION)
        choice = answer.choices[0]
    except (OpenAIError, ValueError, TypeError, IndexError) as error:
        raise GaveUpError("the model does not answer") from error
    if sound and (choice.finish_reason != "stop" or "42" not in (choice.message.content or "")):
        raise GaveUpError("the answer is not complete")
    return send_mail(choice.message.content)


def main(agent, twin):
    try:
        text = globals()[agent](sound=twin == "sound")
    except GaveUpError as error:
        sys.stderr.write(f"{error}\n")
        return GAVE_UP
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
