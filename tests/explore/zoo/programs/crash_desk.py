"""Agents that are killed and started again: `crash_desk.py AGENT defect|sound`. Their state is in $TMPDIR.

Each does what its name says; its docstring says what its twin does instead.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from desk import GAVE_UP, TICKET, GaveUpError, arguments_of, ask

from offbook import effect

STATE = Path(os.environ["TMPDIR"])
PROGRESS, TILL, LOCK = STATE / "progress.json", STATE / "till.jsonl", STATE / "lock"
NO_PROGRESS = {"messages": TICKET, "paid": False}


def refund(order_id, **key):
    """Pay. The till is the bank's own record of that. It does nothing for a key that it knows."""
    if not (key and is_in_till(**key)):
        append(TILL, {"order_id": order_id, **key})
        append(Path(os.environ["ZOO_LEDGER"]), {"tool": "refund", "arguments": {"order_id": order_id}})
    if os.environ.get("ZOO_REPORTS"):
        effect("refund", order_id=order_id, **key)


def append(path, value):
    with path.open("a") as file:
        file.write(json.dumps(value) + "\n")


def is_in_till(**wanted):
    """Ask the bank whether it has paid for an order, or by a key."""
    lines = TILL.read_text().splitlines() if TILL.exists() else []
    return any(wanted.items() <= json.loads(line).items() for line in lines)


def load(path=PROGRESS):
    return json.loads(path.read_text()) if path.exists() else dict(NO_PROGRESS)


def save(progress):
    """Save how far it is: a file takes the place of the other as a whole."""
    following = PROGRESS.with_suffix(".next")
    following.write_text(json.dumps(progress))
    following.replace(PROGRESS)


def serve(pay, *, progress=None, saving=save):
    """Serve the customer, from where it was; `pay` does what the model asks for."""
    progress = progress or load()
    while True:
        message = ask(progress["messages"])
        if not message.get("tool_calls"):
            return message["content"]
        (call,) = message["tool_calls"]
        pay(progress, arguments_of(call)["order_id"])
        done = {"role": "tool", "tool_call_id": call["id"], "content": "paid"}
        progress = progress | {"messages": [*progress["messages"], message, done]}
        saving(progress)


def ask_and_pay(_, order_id):
    """Pay, unless the bank says that it has."""
    if not is_in_till(order_id=order_id):
        refund(order_id)


def never_saves(*, sound):
    """Starts from the beginning; the twin saves its conversation, and asks the bank."""
    if not sound:
        return serve(lambda _, order_id: refund(order_id), saving=lambda _: None)
    return serve(ask_and_pay)


def saves_after(*, sound):
    """Saves that it has paid after it has; the twin asks the bank, too, what of that it could not save."""

    def pay(progress, order_id):
        if not (progress["paid"] or (sound and is_in_till(order_id=order_id))):
            refund(order_id)
        save(progress | {"paid": True})

    return serve(pay)


def saves_before(*, sound):
    """Ticks the order off when it begins with it; the twin writes down what it is about to do, and then looks."""
    if not sound:
        progress = load()
        if progress["paid"]:
            return "Order 42 is refunded."
        save(progress | {"paid": True})
        return serve(lambda _, order_id: refund(order_id), progress=progress, saving=lambda _: None)

    def pay(progress, order_id):
        if not (progress.get("intends") == order_id and is_in_till(order_id=order_id)):
            save(progress | {"intends": order_id})
            refund(order_id)

    return serve(pay)


def pays_with_another_key(*, sound):
    """Has a key that the bank knows, but another one in every life; that of the twin is the order."""
    return serve(lambda _, order_id: refund(order_id, key=f"order-{order_id}" if sound else str(uuid4())))


def leaves_its_lock(*, sound):
    """Waits for a lock that nobody holds; the twin looks whether its owner lives."""
    while not acquire():
        owner = int(LOCK.read_text() or 0)
        if sound and not lives(owner):
            LOCK.unlink()
        time.sleep(0.01)
    try:
        return serve(ask_and_pay)
    finally:
        LOCK.unlink()


def acquire():
    with suppress(FileExistsError):
        file = os.open(LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, str(os.getpid()).encode())
        os.close(file)
        return True
    return False


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def writes_in_place(*, sound):
    """Opens its file before it knows what to write; the twin writes another one, which takes its place."""
    if sound:
        return serve(ask_and_pay)
    progress = load()
    with PROGRESS.open("w") as file:

        def saving(now):
            file.seek(0)
            json.dump(now, file)

        return serve(
            lambda _, order_id: is_in_till(order_id=order_id) or refund(order_id), progress=progress, saving=saving
        )


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
