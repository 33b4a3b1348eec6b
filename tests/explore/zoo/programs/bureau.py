"""Agents that are one program in Python: what they say, leave and look up. `bureau.py AGENT defect|sound`."""

from __future__ import annotations

import json
import os
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from desk import (
    GAVE_UP,
    PATIENCE_S,
    TICKET,
    TOOLS,
    BusyError,
    GaveUpError,
    Till,
    ask,
    ask_once,
    converse,
    note,
    post,
)


class RefusedError(Exception):
    """The program cannot go on. It says so, and its exit code is 1, as that of most programs."""


def allow(question):
    """Ask the model for its leave."""
    if ask([{"role": "user", "content": question}], tools=None)["content"] != "Yes.":
        raise GaveUpError(f"the model did not say yes: {question}")


def exits(*, sound):
    """Reads an answer as if there were always one; the twin ends with a sentence and 1 if there is none."""
    if not sound:
        return json.loads(post(TICKET, tools=None)[2])["choices"][0]["message"]["content"].strip()
    try:
        return ask(TICKET, tools=None)["content"]
    except GaveUpError as error:
        raise RefusedError(f"The question could not be answered: {error}") from error


def leaves_a_flight(*, sound):
    """Books a flight and, if its model allows it, a room. Without a room, the twin cancels the flight."""
    try:
        allow("May the trip be booked?")
        note("book_flight", city="Oslo")
        try:
            allow("May there be a room?")
        except GaveUpError:
            if sound:
                note("cancel_flight", city="Oslo")
            raise
    except GaveUpError as error:
        raise RefusedError(f"There is no trip: {error}") from error
    note("book_room", city="Oslo")
    return "The trip to Oslo is booked."


def runs_a_tool_again(*, sound):
    """Runs the tools of an answer again when the request with their results fails; the twin sends the results again."""
    till, messages = Till(), list(TICKET)
    message = ask(messages)
    for _ in range(2):
        calls = message.get("tool_calls") or []
        if not sound:
            till.paid = None
        results = [{"role": "tool", "tool_call_id": call["id"], "content": till.use(call)} for call in calls]
        try:
            answer = ask_once([*messages, message, *results])
        except BusyError:
            time.sleep(0.05)
            continue
        if answer.get("tool_calls"):
            raise GaveUpError("the model wants more than a refund")
        return till.finish(answer["content"])
    raise GaveUpError("the model does not answer")


def runs_a_tool_again_with_noise(*, sound):
    """The same, with what is another in every run on its standard output."""
    text = runs_a_tool_again(sound=sound)
    now = time.strftime("%H:%M:%S")
    return f"[{now}] desk {os.getpid()}: {text}\n{time.time_ns()} ns, {time.perf_counter():.6f} s"


CLEAN = {
    "de": "Ihre Bestellung 42 wurde erstattet.",
    "ja": json.dumps({"注文": 42, "状態": "返金済み"}, ensure_ascii=False),
}
HANDED_OVER = {
    "de": "Ihr Antrag konnte noch nicht geprüft werden. Eine Kollegin meldet sich bei Ihnen.",
    "ja": json.dumps({"注文": 42, "状態": "担当者確認中"}, ensure_ascii=False),
}


def hands_over(language, *, sound):
    """Refunds an order, or leaves it to a person: the defect says all the same that it is refunded."""
    till = Till()
    try:
        converse(ask, till.use)
    except GaveUpError:
        if till.paid is None:
            return (HANDED_OVER if sound else CLEAN)[language]
        raise
    if till.paid is None:
        return (HANDED_OVER if sound else CLEAN)[language]
    return CLEAN[language]


def hands_over_in_german(*, sound):
    return hands_over("de", sound=sound)


def hands_over_in_japanese(*, sound):
    return hands_over("ja", sound=sound)


def books_two_of_three(*, sound):
    """Books three invoices that its model checks one by one, and tells which of them are left: the defect, none."""
    booked, left = [], []
    for number in ("R-1", "R-2", "R-3"):
        try:
            allow(f"Is {number} right?")
        except GaveUpError:
            left.append(number)
            continue
        note("book_invoice", number=number)
        booked.append(number)
    if not booked:
        raise GaveUpError("no invoice could be checked")
    report = {"gebucht": booked, "offen": left} if sound else {"gebucht": [*booked, *left], "offen": []}
    report["gebucht"].sort()
    return json.dumps(report)


def streamed():
    """Read the tool calls of a streamed answer. Returns also whether it has an end."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = HTTPConnection(url.hostname, url.port, timeout=PATIENCE_S)
    body = json.dumps({"model": "gpt-4o", "messages": TICKET, "tools": TOOLS, "stream": True})
    call, has_end = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}, False
    try:
        connection.request("POST", f"{url.path}/chat/completions", body, {"content-type": "application/json"})
        for line in connection.getresponse():
            for choice in json.loads(line[6:])["choices"] if line.startswith(b"data: {") else ():
                has_end = has_end or choice.get("finish_reason") is not None
                for part in choice["delta"].get("tool_calls") or ():
                    call["id"] = part.get("id") or call["id"]
                    call["function"]["name"] += part["function"].get("name") or ""
                    call["function"]["arguments"] += part["function"].get("arguments") or ""
    except (OSError, HTTPException, ValueError, LookupError, AttributeError, TypeError):
        return call, False
    finally:
        connection.close()
    return call, has_end


def streams_a_tool_call(*, sound):
    """Runs a whole tool call whose stream just ended. The defect then reads the stream again, and runs it again."""
    till, messages = Till(), list(TICKET)
    for _ in range(3):
        call, has_end = streamed()
        if not sound:
            till.paid = None
        result = till.use(call)
        if till.paid is None:
            continue
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": result}]
        if has_end or sound:
            break
    if till.paid is None:
        raise GaveUpError("the stream breaks every time")
    return till.finish(ask(messages)["content"])


def sent(tool):
    """Note a call that is about to be made: in a replay, no tool runs and could note it."""
    with Path(os.environ["ZOO_LEDGER"]).open("a") as ledger:
        ledger.write(json.dumps({"tool": tool, "arguments": {"order": 42}}) + "\n")


def create_invoice(order):
    """Write an invoice: for real into a file."""
    if os.environ.get("ZOO_REAL"):
        sent("create_invoice")
        Path(os.environ["TMPDIR"], "invoice").write_text("made")
    return {"invoiced": order}


def find_invoice(order):
    """Look for the invoice."""
    return {"order": order, "exists": Path(os.environ["TMPDIR"], "invoice").exists()}


def exists():
    try:
        invoice = find_invoice(order=42)
    except Exception as error:
        raise GaveUpError("nobody knows whether it is invoiced") from error
    if not (isinstance(invoice, dict) and isinstance(invoice.get("exists"), bool)):
        raise GaveUpError("nobody knows whether it is invoiced")
    return invoice["exists"]


def invoices(*, sound, reads_after=False):
    """Writes an invoice that is not there. If that fails it writes it again; the twin looks first."""
    allow("May order 42 be invoiced?")
    made = exists()
    for _ in range(2):
        if made:
            break
        if not os.environ.get("ZOO_REAL"):
            sent("create_invoice")
        try:
            made = create_invoice(order=42) == {"invoiced": 42}
        except Exception:
            time.sleep(0.05)
        made = made or (sound and exists())
    if not made or (reads_after and not exists()):
        raise GaveUpError("somebody has to look for the invoice")
    return "Order 42 is invoiced."


def invoices_and_looks(*, sound):
    """The same, and it also looks for the invoice when all went well."""
    return invoices(sound=sound, reads_after=True)


PRICES = {1: 10, 2: 20, 3: 30}
FIND = {"name": "find_price", "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}}}


def gives_three_back(*, sound):
    """Pays three orders back whose prices its model asks for at once: by position, and the twin by their ids."""
    calls = ask(TICKET, tools=[{"type": "function", "function": FIND}]).get("tool_calls") or []
    asked = [order_of(call) for call in calls]
    if sound and asked != list(PRICES):
        raise GaveUpError("the model asks for something else")
    prices = [PRICES[order] for order in asked if order in PRICES]
    if not prices:
        raise GaveUpError("the model asks for nothing")
    for order, euros in zip(PRICES, prices, strict=False):
        note("give_back", order=order, euros=euros)
    return "Les trois commandes sont remboursées."


def order_of(call):
    try:
        order = json.loads(call["function"]["arguments"]).get("order")
    except (ValueError, AttributeError):
        return None
    return order if isinstance(order, int) and call["function"]["name"] == "find_price" else None


def deposits(*, sound):
    """Books two deposits as their amounts come. The defect gives the first one a bonus."""
    from parallel import price, sent  # noqa: PLC0415 - only this one asks two questions at once

    file = Path(os.environ["TMPDIR"], "balance")
    file.write_text("100")
    for place, euros in enumerate(as_they_come(sent, price)):
        balance = int(file.read_text()) + euros + (0 if sound or place else euros // 10)
        note("set_balance", euros=balance)
        file.write_text(str(balance))
    return "Both deposits are booked."


def as_they_come(sent, price):
    import select  # noqa: PLC0415

    waiting = {connection.sock: connection for step in ("rail", "bus") for connection in [sent(step)]}
    while waiting:
        for ready in select.select(list(waiting), [], [])[0]:
            yield price(waiting.pop(ready))


def main(agent, twin):
    try:
        text = globals()[agent](sound=twin == "sound")
    except (GaveUpError, RefusedError) as error:
        sys.stderr.write(f"{error}\n")
        return GAVE_UP if isinstance(error, GaveUpError) else 1
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
