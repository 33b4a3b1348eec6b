"""Agents that are one program in Python and ask for two offers at once: `parallel.py AGENT defect|sound`."""

from __future__ import annotations

import json
import os
import select
import sys
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from desk import GAVE_UP, GaveUpError, note

STEPS = ("rail", "bus")


def sent(step):
    """Send a request, and return its connection."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = HTTPConnection(url.hostname, url.port, timeout=15)
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": f"By {step}?"}]})
    headers = {"content-type": "application/json", "x-offbook-step": step}
    connection.request("POST", f"{url.path}/chat/completions", body, headers)
    return connection


def price(connection):
    answer = connection.getresponse()
    if answer.status != 200:
        raise GaveUpError(f"HTTP {answer.status}")
    return int(json.loads(answer.read())["choices"][0]["message"]["content"])


def offers():
    """Yield the offers in the order in which they come."""
    waiting = {connection.sock: (step, connection) for step in STEPS for connection in [sent(step)]}
    while waiting:
        for ready in select.select(list(waiting), [], [])[0]:
            step, connection = waiting.pop(ready)
            yield step, price(connection)


def takes_an_offer(*, sound=False):
    """Books the offer that came last; the twin the cheaper one."""
    found = dict(offers())
    chosen = min(found, key=found.__getitem__) if sound else list(found)[-1]
    note("book", by=chosen, price=found[chosen])
    return "It is booked."


def main(agent, twin):
    try:
        text = globals()[agent](sound=twin == "sound")
    except (GaveUpError, OSError, HTTPException, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return GAVE_UP
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
