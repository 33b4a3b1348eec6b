"""Agents that leave something behind in their process. All that their code can reach is compared: see `test_traces`."""

import logging
import os
import signal
import sys
import threading
from functools import lru_cache
from types import SimpleNamespace

import httpx2

from offbook import effect

COUNT = 0
SEEN, SETTINGS, STATE = [], {"a": {"b": [1]}}, SimpleNamespace(is_open=False)


class Desk:
    open_desks = 0

    def answer(self):
        Desk.open_desks += 1


@lru_cache
def priced(order):
    return order * 2


def counting():
    global COUNT  # noqa: PLW0603 - this is what is to be seen
    COUNT += 1


def renaming():
    SETTINGS["c"] = SETTINGS.pop("a")


def collecting(found=[]):  # noqa: B006 - this is what is to be seen
    found.append("x")


def patching():
    httpx2.codes = {}


def patching_a_class():
    httpx2.Client.tried = 1


def registering():
    logging.getLogger("desk").addHandler(logging.NullHandler())


def opening_a_desk():
    STATE.is_open = True


def opening():
    STATE.files = os.dup(1)


LEAVE_SOMETHING = {
    "a variable": counting,
    "a list": lambda: SEEN.append("x"),
    "a list deep inside": lambda: SETTINGS["a"]["b"].append(2),
    "a key": renaming,
    "a default": collecting,
    "a class": Desk().answer,
    "an attribute": opening_a_desk,
    "a cache": lambda: priced(42),
    "the environment": lambda: os.environ.update(DESK="open"),
    "the directory": lambda: os.chdir("/"),
    "a file": opening,
    "a thread": lambda: threading.Thread(target=threading.Event().wait, daemon=True).start(),
    "a handler of a signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "a variable of a package": patching,
    "a class of a package": patching_a_class,
    "a handler of a log": registering,
    "a path": lambda: sys.path.append("/desk"),
}


def with_a_cycle():
    own = {"cycle": Desk()}
    own["cycle"].own = own


def changing_back():
    SEEN.append("x")
    SEEN.pop()


LEAVE_NOTHING = {"a cycle": with_a_cycle, "what is changed back": changing_back}


def agent_that(leave):
    def agent(_):
        leave()
        return os.getpid()

    return agent


def refunding(offbook):
    import openai  # noqa: PLC0415 - large, and the other agents need not have it

    client = openai.OpenAI(api_key="none", http_client=offbook.sync_http_client(), timeout=10)
    messages, tools = (
        [{"role": "user", "content": "Order 42 never came"}],
        [{"type": "function", "function": {"name": "refund"}}],
    )
    for _ in range(3):
        said = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
        if not said.tool_calls:
            return said.content
        messages.append(said.model_dump(include={"role", "tool_calls"}))
        for call in said.tool_calls:
            effect("refund", arguments=call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "done"})
    return None
