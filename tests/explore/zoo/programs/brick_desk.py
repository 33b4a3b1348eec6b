"""Agents that send a conversation that no API accepts any more: `brick_desk.py AGENT defect|sound`.

Each does what its name says; its docstring says what its twin does instead.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from urllib.parse import urlsplit

from crash_desk import ask_and_pay, is_in_till, load, save
from desk import GAVE_UP, PATIENCE_S, TICKET, TOOLS, BusyError, GaveUpError, arguments_of, ask, ask_once

TURNS = 5


def result_of(call, text="paid"):
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def pay(call):
    """Do what the model asks for, unless it is done."""
    arguments = arguments_of(call)
    if arguments is None:
        raise GaveUpError("it is not the customer's order")
    ask_and_pay(None, **arguments)
    return result_of(call)


def keep(messages):
    save({"messages": messages, "paid": False})


def open_calls(messages):
    """Return the tool calls at the end of a conversation that have no results yet."""
    return messages[-1].get("tool_calls") or []


def dies_before_its_result(*, sound):
    """Saves what the model asks for before it does it; the twin does that first when it is started again."""
    messages = load()["messages"]
    if sound:
        messages = [*messages, *(pay(call) for call in open_calls(messages))]
    for _ in range(TURNS):
        message = ask(messages)
        if not message.get("tool_calls"):
            return message["content"]
        keep([*messages, message])
        messages = [*messages, message, *map(pay, message["tool_calls"])]
        keep(messages)
    raise GaveUpError("the model does not come to an end")


def goes_on_after_a_stop(*, sound):
    """Goes on from what it has saved, with a word of the user; the twin drops what the model has asked for."""
    messages = load()["messages"]
    if open_calls(messages):
        messages = messages[:-1] if sound else [*messages, {"role": "user", "content": "I have stopped you. Go on."}]
    for _ in range(TURNS):
        for _ in range(1 if sound else 3):
            try:
                message = ask(messages)
                break
            except GaveUpError:
                keep(messages)
        else:
            raise GaveUpError("the model does not answer")
        keep([*messages, message])
        if not message.get("tool_calls"):
            return message["content"]
        messages = [*messages, message, *map(pay, message["tool_calls"])]
    raise GaveUpError("the model does not come to an end")


def stores_a_broken_answer(*, sound):
    """Keeps what there is of a streamed answer, and asks again; the twin asks again without it."""
    messages, failures = list(TICKET), 0
    while failures < 3:
        message, is_whole = stream(messages)
        if is_whole and not message.get("tool_calls"):
            return message["content"]
        if is_whole:
            messages = [*messages, message, *map(pay, message["tool_calls"])]
        else:
            failures += 1
            time.sleep(0.05)
            messages = messages if sound or not message.get("tool_calls") else [*messages, message]
    raise GaveUpError("the answers broke off")


def stream(messages):
    """Read a streamed answer, and return what there is of it, and whether it is all."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE_S)
    body = json.dumps({"model": "gpt-4o", "messages": messages, "tools": TOOLS, "stream": True})
    text, calls, is_whole = "", {}, False
    try:
        connection.request("POST", f"{url.path}/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        if answer.status == 400:
            raise GaveUpError("HTTP 400")
        for line in answer if answer.status == 200 else ():
            choices = json.loads(line[6:])["choices"] if line.startswith(b"data: {") else []
            for choice in choices:
                text += choice["delta"].get("content") or ""
                is_whole = is_whole or choice["finish_reason"] in ("stop", "tool_calls")
                for piece in choice["delta"].get("tool_calls") or []:
                    call = calls.setdefault(piece["index"], {"name": "", "arguments": ""})
                    call["id"] = piece.get("id") or call.get("id")
                    for name, value in piece["function"].items():
                        call[name] += value or ""
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        is_whole = is_whole and not isinstance(error, ValueError | KeyError)
    finally:
        connection.close()
    message = {"role": "assistant", "content": text or None}
    if calls:
        functions = [(call.pop("id"), call) for call in calls.values()]
        message["tool_calls"] = [{"id": each, "type": "function", "function": call} for each, call in functions]
    return message, is_whole and bool(text.strip() or calls)


def answers_for_another_call(*, sound):
    """Writes its conversation anew when the model is busy, with other ids for results; the twin with the same."""
    messages = list(TICKET)
    for _ in range(TURNS):
        try:
            message = ask_once(messages)
        except BusyError:
            time.sleep(0.05)
            for place, each in enumerate(messages):
                if each["role"] == "tool" and not sound:
                    messages[place] = each | {"tool_call_id": f"call_again_{place}"}
            message = ask(messages)
        if not message.get("tool_calls"):
            return message["content"]
        messages = [*messages, message, *map(pay, message["tool_calls"])]
    raise GaveUpError("the model does not come to an end")


def cuts_a_pair(*, sound):
    """Drops all but the last message when there are too many; the twin says in its own words what was done."""
    messages = list(TICKET)
    for _ in range(TURNS):
        try:
            message = ask(messages)
        except GaveUpError as error:
            if "HTTP 400" not in str(error) or len(messages) <= len(TICKET):
                raise
            done = "It is paid." if is_in_till(order_id=42) else "Nothing is done."
            told = {"role": "user", "content": f"{TICKET[1]['content']} {done}"}
            messages = [TICKET[0], told] if sound else [TICKET[0], messages[-1]]
            message = ask(messages)
        if not message.get("tool_calls"):
            return message["content"]
        messages = [*messages, message, *map(pay, message["tool_calls"])]
    raise GaveUpError("the model does not come to an end")


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
