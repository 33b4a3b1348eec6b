"""Agents whose model goes on after a failure: what they run for it, what they tell it, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from offbook.tools import run_tools
from tests.explore.zoo.functions.desk import (
    DONE,
    REFUND,
    TOOLS,
    GaveUpError,
    Till,
    asking,
    serve,
    serves,
)
from tests.explore.zoo.planted import PlantedFunction


class TrustingTill(Till):
    """Uses whatever the model asks for, with whatever arguments."""

    def __init__(self, tools, *, minds_names=True, minds_json=True, minds_types=True):
        super().__init__(tools)
        self.minds_names, self.minds_json, self.minds_types = minds_names, minds_json, minds_types

    async def use(self, call):
        if self.minds_names and call.tool not in self.tools:
            return "error: there is no such tool"
        if self.minds_json and call.raw_arguments is not None:
            return "error: the arguments are not JSON"
        arguments = json.loads(call.arguments)
        if self.minds_types and arguments != {"order_id": 42}:
            return "error: this is not the customer's order"
        if call.tool not in self.results:
            tool = self.tools[call.tool]
            self.results[call.tool] = self.check(self.attempt(tool, arguments["order_id"] + 0))
        return json.dumps(self.results[call.tool])

    def attempt(self, tool, order_id):
        try:
            return tool.callable(order_id=order_id)
        except Exception as error:
            raise GaveUpError("a tool failed, somebody has to look at it") from error


async def trusts_its_model(offbook, **minds):
    """Uses a tool as the model wrote it; the twin checks the name, the JSON and the values first."""
    return await serve(asking(offbook.gateway), TrustingTill(offbook.tools(TOOLS), **minds))


async def loses_its_transcript(offbook, *, keeps):
    """Goes on without its conversation when the connection breaks; the twin asks the same again."""

    async def ask(messages):
        try:
            return await asking(offbook.provider)(messages)
        except GaveUpError as error:
            if not isinstance(error.__cause__, ConnectionError):
                raise
        if not keeps:
            del messages[1:-1]
        await asyncio.sleep(1.0)
        return await asking(offbook.gateway)(messages)

    return await serve(ask, Till(offbook.tools(TOOLS)))


class TellingTill(Till):
    """Tells the model of every failure, and runs a refund again whenever the model asks; or never again."""

    def __init__(self, tools, *, at_most_once):
        super().__init__(tools)
        self.at_most_once = at_most_once

    async def use(self, call):
        if call.tool == "refund" and "refund" in self.tried and self.at_most_once:
            return "error: this was tried before, and nobody knows whether it was paid; tell the customer"
        if call.args == {"order_id": 42}:
            self.tried.add(call.tool)
        elif call.tool in self.tools:
            return "error: this is not the customer's order"
        (outcome,) = await run_tools(self.tools, [call])
        if outcome.error is None and outcome.value == {"refunded": 42}:
            self.results["refund"] = outcome.value
        return outcome.text


async def tells_its_model(offbook, *, at_most_once):
    """Tells its model of a lost refund, and refunds again if the model asks; the twin does not."""
    return await serve(asking(offbook.gateway), TellingTill(offbook.tools(TOOLS), at_most_once=at_most_once))


class CarelessTill(Till):
    """Pays as often as it is asked to."""

    async def use(self, call):
        self.results.pop(call.tool, None)
        return await super().use(call)


async def ends_at_its_limit(offbook, *, till, limit):
    """Pays whenever its model asks, and says that it is done at its limit; the twin pays once, and gives up."""
    desk = till(offbook.tools(TOOLS))
    try:
        return await serve(asking(offbook.gateway), desk, turns=3)
    except GaveUpError as error:
        return limit(error, desk)


def say_done(error, desk):
    """Say what the model should have said, if the money was paid."""
    if "come to an end" not in str(error) or not desk.has_paid:
        raise error
    return DONE


def give_up(error, desk):
    """Give up as the desk did."""
    raise error


async def leaves_the_process(offbook, *, leave):
    """Ends the whole process when it has to give up; the twin raises."""
    try:
        return await serve(asking(offbook.gateway), Till(offbook.tools(TOOLS)))
    except GaveUpError:
        leave()
        raise


def stay():
    """Leave the ending to the caller."""


PLANTED = [
    PlantedFunction(
        name="uses an unknown tool",
        agent=trusts_its_model,
        defect={"minds_names": False, "minds_types": False},
        sound={},
        answers=REFUND,
        verdict="crashed",
        at="step=agent call=1 attempt=1: unknown_tool",
        evidence="KeyError",
        also=["wrong effect"],
    ),
    PlantedFunction(
        name="reads arguments that are not JSON",
        agent=trusts_its_model,
        defect={"minds_json": False},
        sound={},
        answers=REFUND,
        verdict="crashed",
        at="step=agent call=1 attempt=1: invalid_tool_args",
        evidence="JSONDecodeError",
    ),
    PlantedFunction(
        name="uses values of another type",
        agent=trusts_its_model,
        defect={"minds_types": False},
        sound={},
        answers=REFUND,
        verdict="crashed",
        at="step=agent call=1 attempt=1: wrong_types",
        evidence="Error",
        also=["wrong effect"],
    ),
    PlantedFunction(
        name="loses its transcript",
        agent=loses_its_transcript,
        defect={"keeps": False},
        sound={"keeps": True},
        answers=REFUND,
        verdict="bad retry (lost messages)",
        at="step=agent call=2 attempt=1: connection_reset",
        evidence="message",
    ),
    PlantedFunction(
        name="has no turn limit",
        agent=serves,
        defect={"turns": 1_000_000},
        sound={},
        answers=REFUND,
        verdict="hung",
        at="step=agent since=1: one_more_tool",
    ),
    PlantedFunction(
        name="says that it is done at its limit",
        agent=ends_at_its_limit,
        defect={"till": CarelessTill, "limit": say_done},
        sound={"till": Till, "limit": give_up},
        answers=REFUND,
        verdict="undetected (broken data)",
        at="step=agent since=1: one_more_tool",
        evidence="refund(order_id=42) ran 3 times instead of once: the model never stopped asking for tools",
    ),
    PlantedFunction(
        name="refunds again when it is asked to",
        agent=tells_its_model,
        defect={"at_most_once": False},
        sound={"at_most_once": True},
        answers=REFUND,
        verdict="repeated effect",
        at="tool=refund call=1: tool_lost",
        evidence="refund(order_id=42)",
    ),
    PlantedFunction(
        name="leaves by sys.exit",
        agent=leaves_the_process,
        defect={"leave": sys.exit},
        sound={"leave": stay},
        answers=REFUND,
        verdict="crashed",
        at="step=agent call=1: http_error 500",
        also=["missing effect"],
    ),
    PlantedFunction(
        name="leaves by os._exit",
        agent=leaves_the_process,
        defect={"leave": lambda: os._exit(0)},
        sound={"leave": stay},
        answers=REFUND,
        verdict="crashed",
        at="step=agent call=1: http_error 500",
        also=["missing effect"],
    ),
]
