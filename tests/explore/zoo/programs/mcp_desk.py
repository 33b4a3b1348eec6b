"""Agents whose tools are those of an MCP server, with the standard library: `mcp_desk.py AGENT defect|sound CONFIG`.

Every call that is sent to the server is written to the ledger: census.py knows what a server would have done for it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from desk import GAVE_UP, GaveUpError, ask, converse

PATIENCE_S = 1.0
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "desk", "version": "1"}}
VERSION = {"mcp-protocol-version": "2025-11-25", "accept": "application/json, text/event-stream"}


class LostError(GaveUpError):
    """The server is gone, and nobody knows what it has done."""


class RefusedError(GaveUpError):
    """The server says that it has not done it."""


class Stdio:
    """A server that is a process."""

    def __init__(self, config, *, sees_end=True):
        environment = os.environ | config.get("env", {})
        self._sees_end, self._rest = sees_end, b""
        self._process = subprocess.Popen(
            [config["command"], *config["args"]], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def send(self, message):
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise LostError("the server does not read") from error

    def lines(self):
        """Yield what the server writes, as long as it is not silent for longer than its client is patient."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                yield line
                continue
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                raise LostError("the server is silent")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data and self._sees_end:
                raise LostError("the server has ended")
            end_s = time.monotonic() + PATIENCE_S
            if not data:
                time.sleep(0.05)  # it may still come
            self._rest += data


class Http:
    """A server at a URL."""

    def __init__(self, config):
        self._url, self._headers, self._answer = urlsplit(config["url"]), dict(VERSION), b""

    def send(self, message):
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port, timeout=PATIENCE_S)
        try:
            connection.request("POST", self._url.path, json.dumps(message), self._headers)
            response = connection.getresponse()
            self._answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise LostError(repr(error)) from error
        finally:
            connection.close()
        if "mcp-session-id" in response.headers:
            self._headers["mcp-session-id"] = response.headers["mcp-session-id"]
        if response.status >= 400:
            raise RefusedError(f"HTTP {response.status}")

    def lines(self):
        yield from (line.removeprefix(b"data: ") for line in self._answer.splitlines() if not line.startswith(b"event"))
        raise LostError("the answer broke off")


class Server:
    """A client of a server. `call` returns the response to a call of a tool, which may be an error."""

    def __init__(self, *, is_blind=False):
        config = json.loads(Path(sys.argv[3]).read_text())["mcpServers"]["desk"]
        self._wire = Http(config) if "url" in config else Stdio(config, sees_end=not is_blind)
        self._number = 0
        self._ask("initialize", HELLO)
        self._wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._ask("tools/list", {})

    def call(self, tool, **arguments):
        with Path(os.environ["ZOO_LEDGER"]).open("a") as ledger:
            ledger.write(json.dumps({"tool": f"desk.{tool}", "arguments": arguments}) + "\n")
        return self._ask("tools/call", {"name": tool, "arguments": arguments})

    def _ask(self, method, params):
        self._number += 1
        self._wire.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        for line in self._wire.lines():
            try:
                message = json.loads(line)
            except ValueError:
                continue  # some servers print
            if message.get("id") == self._number and "method" not in message:
                return message
        raise LostError("no answer")


def checked(response, **expected):
    """Return the result of a call that succeeded, and gave what was expected."""
    result = response.get("result")
    if result is None or result.get("isError"):
        raise RefusedError(f"the tool failed: {response.get('error') or result}")
    if not isinstance(data := result.get("structuredContent"), dict) or not expected.items() <= data.items():
        raise LostError("the tool did not say what it did")
    return data


class Till:
    """Refunds the customer's order, at most once. `pay` calls the tool."""

    def __init__(self, pay):
        self._pay, self.is_paid = pay, False

    def use(self, call):
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        if (
            call["function"]["name"] != "refund"
            or arguments != {"order_id": 42}
            or type(arguments["order_id"]) is float
        ):
            return "error: there is no such tool, or it is not the customer's order"
        try:
            if not self.is_paid:
                self._pay()
        except RefusedError as error:
            return f"error: {error}"
        self.is_paid = True
        return "paid"

    @property
    def done(self):
        return "refund has run" if self.is_paid else "nothing was changed"

    def serve(self):
        text = converse(ask, self.use)
        if not self.is_paid:
            raise GaveUpError(f"nothing was paid: {text}")
        return text


def serves(*, sound):
    """The desk as it should be: what is not certain is not repeated, and not said to be done."""
    server = Server()
    return Till(lambda: checked(server.call("refund", order_id=42), done="refund", order_id=42)).serve()


def sends_again(*, sound):
    """Connects again when the server is lost, and sends the call again; the twin gives up."""

    def pay():
        server = Server()
        try:
            checked(server.call("refund", order_id=42), done="refund", order_id=42)
        except LostError:
            if sound:
                raise
            checked(Server().call("refund", order_id=42), done="refund", order_id=42)

    return Till(pay).serve()


def starts_over(*, sound):
    """Refunds, and sends a mail about it. Starts over with a new server when it is lost; the twin does not."""
    for _ in range(2):
        server = Server()
        till = Till(lambda server=server: checked(server.call("refund", order_id=42), done="refund", order_id=42))
        try:
            text = till.serve()
            checked(server.call("mail", to="ann@example.org", about=42), done="mail", about=42)
        except LostError as error:
            if sound:
                raise LostError(f"{error}; {till.done}") from error
        except GaveUpError as error:
            raise GaveUpError(f"{error}; {till.done}") from error
        else:
            return text
    raise GaveUpError("the server was lost twice")


def writes_to_whom_it_reads(*, sound):
    """Takes the address of the customer out of the text of a result; the twin out of the data."""
    server = Server()
    response = server.call("find_order", order_id=42)
    address = checked(response, order_id=42)["mail"]
    if not sound:
        address = re.findall(r"[\w.]+@[\w.]+\w", response["result"]["content"][0]["text"])[-1]
    text = ask([{"role": "user", "content": "Write to the customer."}], tools=None)["content"]
    if text != "It is on its way.":
        raise GaveUpError("this is not what we say")
    checked(server.call("mail", to=address, about=42), done="mail", about=42)
    return text


def ignores_is_error(*, sound):
    """Takes every result for a success."""
    server = Server()

    def pay():
        if "result" not in server.call("refund", order_id=42):
            raise RefusedError("the tool failed")

    return Till(pay).serve()


def ignores_errors(*, sound):
    """Takes an error of the protocol, such as for a tool that is gone, for an answer."""
    server = Server()

    def pay():
        response = server.call("refund", order_id=42)
        if response.get("result", {}).get("isError"):
            raise RefusedError("the tool failed")

    return Till(pay).serve()


def waits_for_the_dead(*, sound):
    """Does not see that the server has ended, and waits for its answer."""
    server = Server(is_blind=True)
    return Till(lambda: checked(server.call("refund", order_id=42), done="refund", order_id=42)).serve()


def refund(server):
    return checked(server.call("refund", order_id=42), done="refund", order_id=42)


def mail(server):
    return checked(server.call("mail", to="ann@example.org", about=42), done="mail", about=42)


def hands_over_in_french(*, sound):
    """Refunds an order, or leaves it to a person: the defect says all the same that it is refunded."""
    done, server = "La commande 42 est remboursée.", Server()
    try:
        Till(lambda: refund(server)).serve()
    except RefusedError:
        return "Un conseiller va reprendre votre dossier." if sound else done
    except GaveUpError as error:
        if "nothing was paid" not in str(error):
            raise
        return "Un conseiller va reprendre votre dossier." if sound else done
    return done


def refunds_and_writes(server):
    """Refund an order and write about it. Returns which of the two is done, if the refund is."""
    till = Till(lambda: refund(server))
    try:
        till.serve()
    except GaveUpError:
        if not till.is_paid:
            raise
        return ["返金"]
    try:
        mail(server)
    except GaveUpError:
        return ["返金"]  # whether it was written nobody knows
    return ["返金", "連絡"]


def leaves_a_refund(*, sound):
    """Refunds an order and writes about it. Without a mail it gives up; only the twin says what is refunded."""
    if len(refunds_and_writes(Server())) == 2:
        return "Order 42 is refunded, and there is a mail about it."
    said = "Order 42 is refunded, and nobody has written about it." if sound else "Nothing was refunded."
    sys.stdout.write(f"{said}\n")
    raise GaveUpError("there is no mail")


def does_two_things(*, sound):
    """Refunds an order and writes about it, and tells which of the two is done: the defect, both."""
    both = ["返金", "連絡"]
    done = refunds_and_writes(Server())
    left = [each for each in both if each not in done]
    return json.dumps({"完了": done if sound else both, "未完了": left if sound else []}, ensure_ascii=False)


if __name__ == "__main__":
    agent, twin = sys.argv[1:3]
    try:
        sys.stdout.write(f"{globals()[agent](sound=twin == 'sound')}\n")
    except GaveUpError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(GAVE_UP)
