"""Requests: a server answers hundreds of thousands with the right text, and then holds what it held before."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import orjson

from bench.soak.front import Outcome, rounds
from bench.soak.wire import Look, Watched, growth_of
from bench.soak.wire_crowd import MESSAGES, MODEL, SESSIONS, text_of

REQUESTS, A_ROUND = 200_000, 10_000
CONNECTIONS, A_CONNECTION = 16, 500
BODY = orjson.dumps({"model": MODEL, "messages": MESSAGES})


def attack(*, seconds: float, seed: int) -> Outcome:
    """Ask over many connections, which are replaced now and then; 200,000 times at least, if there is a minute."""
    outcome, random, looks = Outcome(unit="requests"), Random(seed), list[Look]()
    with TemporaryDirectory(prefix="offbook-soak-") as name:
        for session in range(SESSIONS):
            answers = {"_version": 2, "any": {"content": text_of(session)}}
            (Path(name) / f"run-{session}.json").write_text(json.dumps(answers))
        server = Watched(Path(name))
        try:
            files = server.look().files
            for _ in rounds(seconds, fewest=REQUESTS // A_ROUND):
                _ask_often(server.port, random, outcome)
                server.forget()
                looks.append(Look(outcome.trials, server.settled(files)))
        finally:
            server.stop()
    for look in looks:
        if look.held.files != files:
            outcome.lose(f"after {look.streams:,} requests, {look.held.files} files are open, and {files} were")
        if look.held.tasks != looks[0].held.tasks:
            outcome.lose(f"after {look.streams:,} requests, {look.held.tasks} tasks are left")
    grown = growth_of(looks[len(looks) // 5 :])
    if not grown.is_flat:
        outcome.lose(f"memory grows: {grown.blocks:+,} blocks and {grown.resident_mb:+.1f} MB in {grown.calls:,}")
    return outcome


def _ask_often(port: int, random: Random, outcome: Outcome) -> None:
    """Ask many times, each connection in turn, and compare each answer."""
    connections = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    for number in range(A_ROUND):
        connection, session = connections[number % CONNECTIONS], random.randrange(SESSIONS)
        connection.request("POST", f"/s/run-{session}/v1/chat/completions", BODY)
        answer = connection.getresponse()
        body = answer.read()
        outcome.trials += 1
        if answer.status != 200 or text_of(session).encode() not in body:
            outcome.lose(f"session {session} got {answer.status} {body[:200]!r}")
        if number // CONNECTIONS % A_CONNECTION == A_CONNECTION - 1:
            connection.close()  # it connects again by itself
    for connection in connections:
        connection.close()
