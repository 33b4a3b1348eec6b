"""Agents that are one program in Python with its standard library: `desk.py AGENT defect|sound`.

Those that do not say what their twin does have `serves` for it.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

GAVE_UP = 3
PATIENCE_S = 0.8
TICKET = [{"role": "system", "content": "You refund orders."}, {"role": "user", "content": "Order 42 never came."}]
REFUND = {"type": "object", "properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]}
TOOLS = [{"type": "function", "function": {"name": "refund", "parameters": REFUND}}]
RETRYABLE = (408, 409, 425, 500, 502, 504, 529)


class GaveUpError(Exception):
    """The program cannot go on, and says so by its exit code."""


class LimitedError(GaveUpError):
    """The model asks to wait for so many seconds."""

    def __init__(self, wait_s):
        super().__init__("HTTP 429")
        self.wait_s = wait_s


class BusyError(Exception):
    """The model may answer later."""


def note(tool, **arguments):
    """Write an effect into the ledger, and report it if the agent reports at all."""
    line = json.dumps({"tool": tool, "arguments": arguments, "run": os.environ["OFFBOOK_URL"]}) + "\n"
    with Path(os.environ["ZOO_LEDGER"]).open("a") as ledger:
        ledger.write(line)
    if os.environ.get("ZOO_REPORTS"):
        with Path(os.environ["OFFBOOK_EFFECTS"]).open("a") as effects:
            effects.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")


def refund(order_id):
    note("refund", order_id=order_id)
    return f"paid for {order_id}"


def post(messages, *, timeout_s=PATIENCE_S, tools=TOOLS, **more):
    """Post one chat completion. Returns the status, the headers and the body."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout_s)
    body = json.dumps({"model": "gpt-4o", "messages": messages} | ({"tools": tools} if tools else {}) | more)
    try:
        connection.request("POST", f"{url.path}/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


COMPLETE = ("stop", "tool_calls")


def ask_once(messages, *, reasons=COMPLETE, **options):
    """Ask the model once, and return its message.

    Raises:
        BusyError: it may answer later.
        GaveUpError: it will not.
    """
    try:
        status, headers, body = post(messages, **options)
        if status in RETRYABLE:
            raise BusyError(f"HTTP {status}")
        if status == 429:
            raise LimitedError(float(headers["retry-after"] or 0))
        if status != 200:
            raise GaveUpError(f"HTTP {status}")
        choice = json.loads(body)["choices"][0]
        return checked(choice["message"], choice["finish_reason"], reasons)
    except TimeoutError as error:
        raise GaveUpError("the model is silent") from error
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, IndexError) as error:
        raise BusyError(repr(error)) from error


def checked(message, finish_reason, reasons):
    if finish_reason not in reasons:
        raise GaveUpError(f"the answer is not complete: {finish_reason}")
    if not message.get("tool_calls") and not (message.get("content") or "").strip():
        raise GaveUpError("the answer is empty")
    return message


def ask(messages, *, tries=2, pause_s=0.05, **options):
    """Ask the model, and again if it is busy."""
    for attempt in range(tries):
        time.sleep(attempt * pause_s)
        try:
            return ask_once(messages, **options)
        except BusyError as error:
            last = error
    raise GaveUpError("the model does not answer") from last


def arguments_of(call):
    """Return the arguments of a call for the customer's order; None if they are for something else."""
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        return None
    is_known = call["function"]["name"] == "refund"
    return arguments if is_known and arguments == {"order_id": 42} and isinstance(arguments["order_id"], int) else None


class Till:
    """Refunds the customer's order, at most once."""

    def __init__(self):
        self.paid = None

    def use(self, call):
        arguments = arguments_of(call)
        if arguments is None:
            return "error: there is no such tool, or it is not the customer's order"
        self.paid = self.paid or refund(**arguments)
        return self.paid

    def finish(self, text):
        if self.paid is None:
            raise GaveUpError(f"nothing was paid: {text}")
        return text


def converse(asking, use, *, turns=5, ticket=TICKET):
    """Ask, use the tools that are asked for, and so on until there is a text."""
    messages = list(ticket)
    for _ in range(turns):
        message = asking(messages)
        if not message.get("tool_calls"):
            return message["content"]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": use(call)} for call in message["tool_calls"]]
        messages += [message, *results]
    raise GaveUpError("the model does not come to an end")


def serve(asking=ask):
    till = Till()
    return till.finish(converse(asking, till.use))


def serves(*, sound):
    """The desk as it should be."""
    return serve()


def starts_over(*, sound=False):
    """Starts over when the model fails; the twin only if nothing was paid."""
    for attempt in range(3):
        time.sleep(attempt * 0.05)
        till = Till()
        try:
            return till.finish(converse(lambda messages: ask(messages, tries=1), till.use))
        except GaveUpError as error:
            if not isinstance(error.__cause__, BusyError) or (sound and till.paid):
                raise
    raise GaveUpError("it failed three times")


def repairs_arguments():
    """Reads what it can of broken arguments, and refunds that."""
    till = Till()

    def use(call):
        if arguments_of(call) is not None:
            return till.use(call)
        digits = "".join(filter(str.isdigit, call["function"]["arguments"]))
        till.paid = refund(int(digits or 0))
        return till.paid

    return till.finish(converse(ask, use))


def cancels(*, times):
    """Books a hotel and asks for a word about it. Without one, it cancels the hotel never, once or twice."""
    city = ask([{"role": "user", "content": "Where to?"}], tools=None)["content"]
    if city != "Oslo":
        raise GaveUpError("there is no such city")
    note("book_hotel", city=city)
    try:
        return ask([{"role": "user", "content": "Say something about the hotel."}], tools=None)["content"]
    except GaveUpError:
        for _ in range(times):
            note("cancel_hotel", city=city)
        raise


def cancels_never():
    return cancels(times=0)


def cancels_once(*, sound):
    return cancels(times=1)


def cancels_twice():
    return cancels(times=2)


def loses_its_transcript():
    """Goes on without its conversation when the model is busy."""

    def asking(messages):
        try:
            return ask_once(messages)
        except BusyError:
            del messages[1]
        time.sleep(0.05)
        return ask(messages)

    return serve(asking)


def ignores_length():
    """Prints what there is of an answer."""
    return serve(lambda messages: ask(messages, reasons=(*COMPLETE, "length")))


def prints_the_error():
    """Prints the body of an error as the answer."""
    till = Till()

    def asking(messages):
        if till.paid is None:
            return ask(messages)
        try:
            body = post(messages)[2].decode()
        except (OSError, http.client.HTTPException) as error:
            raise GaveUpError("the model does not answer") from error
        try:
            choice = json.loads(body)["choices"][0]
        except (ValueError, KeyError):
            return {"content": body}
        return checked(choice["message"], choice["finish_reason"], COMPLETE)

    return till.finish(converse(asking, till.use))


def asks_until_it_says_something(*, sound=False):
    """Asks again while the answer is empty, for ever; the twin three times."""

    def asking(messages):
        left = 3 if sound else -1
        while left:
            left -= 1
            try:
                return ask(messages)
            except GaveUpError as error:
                if "empty" not in str(error):
                    raise
            time.sleep(0.02)
        raise GaveUpError("the model says nothing")

    return serve(asking)


def retries_in_vain(*, sound=False):
    """Asks again after every error of the model; the twin only after those that may pass."""

    def asking(messages):
        for attempt in range(3):
            time.sleep(0.05 * 2**attempt)
            try:
                return ask_once(messages)
            except BusyError:
                continue
            except GaveUpError as error:
                if sound or isinstance(error, LimitedError) or "HTTP 4" not in str(error):
                    raise
        raise GaveUpError("the model does not answer")

    return serve(asking)


def does_not_pause():
    """Asks a hundred times without a pause."""
    return serve(lambda messages: ask(messages, tries=100, pause_s=0.0))


def ignores_retry_after(*, sound=False):
    """Comes back at once when it is asked to wait; the twin waits."""

    def asking(messages):
        for _ in range(2):
            try:
                return ask(messages)
            except LimitedError as error:
                time.sleep(error.wait_s + 0.02 if sound else 0.05)
        raise GaveUpError("the model stays busy")

    return serve(asking)


def has_no_timeout():
    """Waits for ever for a model that says nothing."""
    return serve(lambda messages: ask(messages, timeout_s=None))


def stream(messages, *, minds_the_end, text=""):
    """Read a streamed answer, piece by piece; what there is of it is added to the text."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE_S)
    body = json.dumps({"model": "gpt-4o", "messages": messages, "stream": True})
    reason = None
    try:
        connection.request("POST", f"{url.path}/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise (BusyError if answer.status in RETRYABLE else GaveUpError)(f"HTTP {answer.status}")
        for line in answer:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                text += (choices[0]["delta"].get("content") or "") if choices else ""
                reason = choices[0].get("finish_reason") or reason if choices else reason
    except TimeoutError as error:
        raise GaveUpError("the model is silent") from error
    except (OSError, http.client.HTTPException, ValueError, LookupError, AttributeError) as error:
        raise PartError(text) from error
    finally:
        connection.close()
    if reason in ("length", "content_filter") or (reason == "stop" and not text):
        raise GaveUpError(f"the answer is not complete: {reason}")
    if reason is None and minds_the_end:
        raise PartError(text)
    return text


class PartError(BusyError):
    """A stream broke; `text` has come."""

    def __init__(self, text):
        super().__init__("the stream broke")
        self.text = text


def streams(*, sound=True, minds_the_end=True, starts_anew=True):
    """Opens a case, and reads a stream that may break, up to three times."""
    note("open_case", order_id=42)
    text = ""
    for attempt in range(3):
        time.sleep(attempt * 0.05)
        try:
            text = stream(TICKET, minds_the_end=minds_the_end, text="" if starts_anew else text)
        except PartError as error:
            text = error.text
            continue
        except BusyError:
            continue
        if text:
            return text
    raise GaveUpError("the stream breaks every time")


def passes_on_a_cut_stream():
    """Takes a stream that just ends for a complete answer."""
    return streams(minds_the_end=False)


def doubles_a_stream():
    """Adds the second stream to what has come of the first."""
    return streams(starts_anew=False)


def publishes(*, sound=True, without_a_review=False, on_an_empty_review=False):
    """Publishes a text that was reviewed, and only then."""
    draft = ask([{"role": "user", "content": "Praise a chair."}], tools=None)["content"]
    if "chair" not in draft:
        raise GaveUpError("the text is about something else")
    try:
        review = ask([{"role": "user", "content": f"Is this good? {draft}"}], tools=None)["content"]
    except GaveUpError as error:
        is_empty = "empty" in str(error)
        if not (on_an_empty_review if is_empty else without_a_review):
            raise
        review = "ok"
    if review != "ok":
        raise GaveUpError("the review is bad")
    note("publish", text=draft)
    return draft


def publishes_unchecked():
    """Publishes what nobody could review."""
    return publishes(without_a_review=True)


def publishes_on_an_empty_review():
    """Publishes unless the review objects, and an empty one does not."""
    return publishes(on_an_empty_review=True)


def main(agent, twin):
    try:
        text = globals()[agent](**({"sound": True} if twin == "sound" else {}))
    except GaveUpError as error:
        sys.stderr.write(f"{error}\n")
        return GAVE_UP
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
