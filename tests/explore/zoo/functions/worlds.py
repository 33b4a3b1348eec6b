"""Agents whose tools remember: what was booked before a failure can be read back, is refused, or is in a balance."""

from __future__ import annotations

import asyncio
import json
import time

import offbook as offbook_module
from offbook import tool
from offbook.errors import ProviderError
from offbook.tools import Toolbox
from tests.explore.zoo.functions.desk import DONE, MODEL, STEP, GaveUpError, asks_for
from tests.explore.zoo.functions.outcomes import YES, allow
from tests.explore.zoo.ledger import note
from tests.explore.zoo.planted import PlantedFunction

FAULTS = "http_error 500,tool_error,tool_lost,tool_garbled,tool_empty"
INVOICED = "Order 42 is invoiced."
MADE: set[int] = set()


@tool(side_effect=True)
def create_invoice(order: int) -> dict:
    """Write an invoice."""
    note("create_invoice", order=order)
    MADE.add(order)
    return {"invoiced": order}


@tool(read_only=True)
def find_invoice(order: int) -> dict:
    """Look for an invoice."""
    return {"order": order, "exists": order in MADE}


async def invoices(offbook, *, reads_back):
    """Writes an invoice, and if that fails again; the twin looks first whether it was written."""
    await allow(offbook)
    tools = offbook.tools(create_invoice, find_invoice)
    for _ in range(2):
        try:
            if tools["create_invoice"].callable(order=42) == {"invoiced": 42}:
                return INVOICED
        except Exception:
            await asyncio.sleep(1.0)
        if reads_back and found(tools["find_invoice"]):
            return INVOICED
    raise GaveUpError("somebody has to look for the invoice")


def found(find):
    try:
        invoice = find.callable(order=42)
    except Exception as error:
        raise GaveUpError("nobody knows whether it is invoiced") from error
    if not (isinstance(invoice, dict) and isinstance(invoice.get("exists"), bool)):
        raise GaveUpError("nobody knows whether it is invoiced")
    return invoice["exists"]


def refusing(name, refusal):
    """A tool that pays an order once, and says so when it is asked again; without a refusal it pays again."""
    paid = set()

    def pay(order_id: int) -> object:
        if order_id in paid and refusal is not None:
            return refusal
        note(name, order_id=order_id)
        paid.add(order_id)
        return {"paid": order_id}

    pay.__name__ = name
    return tool(side_effect=True)(pay)


async def insists(offbook, *, on, refusal):
    """Pays until it hears of it; the bank of the twin refuses to pay twice, and the twin takes that for paid."""
    await allow(offbook)
    pay = offbook.tools(on)[on.spec.name]
    for attempt in range(3):
        await asyncio.sleep(attempt)
        try:
            result = pay.callable(order_id=42)
        except Exception:
            continue
        if result in ({"paid": 42}, refusal):
            return DONE
    raise GaveUpError("the bank does not answer")


def loops(offbook, *, refuses, minds):
    """Runs the tools of a conversation over HTTP, which report what they did: a refusal reports nothing."""
    client, messages, paid = offbook.sync_http_client(), [{"role": "user", "content": "Order 42 never came."}], []

    def refund(arguments):
        if arguments != {"order_id": 42} or (refuses and paid):
            return '{"status": "kept as it is"}'
        note("refund", order_id=42)
        offbook_module.effect("refund", order_id=42)
        paid.append(42)
        return '{"status": "refunded"}'

    for _ in range(4):
        message = asked(client, messages)
        if not message.get("tool_calls"):
            if minds and not paid:
                raise GaveUpError("nothing was paid")
            return DONE
        results = [(call["id"], refund(arguments_of(call))) for call in message["tool_calls"]]
        messages += [message, *({"role": "tool", "tool_call_id": each, "content": text} for each, text in results)]
    raise GaveUpError("the model does not come to an end")


def asked(client, messages):
    """The next message of the model, asked at most twice."""
    for attempt in range(2):
        time.sleep(attempt)
        request = {"model": MODEL, "messages": messages, "tools": REFUND_TOOL}
        answer = client.post("https://api.openai.com/v1/chat/completions", json=request)
        if answer.status_code == 200:
            return answer.json()["choices"][0]["message"]
    raise GaveUpError("the model does not answer")


SCHEMA = {"type": "object", "properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]}
REFUND_TOOL = [{"type": "function", "function": {"name": "refund", "parameters": SCHEMA}}]


def arguments_of(call):
    try:
        return json.loads(call["function"]["arguments"])
    except ValueError:
        return None


POLLS: list[int] = []


@tool(side_effect=True)
def start_export(month: int) -> dict:
    """Start an export."""
    note("start_export", month=month)
    return {"job": 5}


@tool(read_only=True)
def check_export(job: int) -> dict:
    """Say how far an export is."""
    POLLS.append(job)
    return {"status": "running" if len(POLLS) < 3 else "done"}


async def exports(offbook, *, minds):
    """Starts an export and asks for it four times. The defect then takes it for done, whatever it heard."""
    await allow(offbook)
    tools = offbook.tools(start_export, check_export)
    try:
        started = tools["start_export"].callable(month=11) == {"job": 5}
    except Exception:
        started = False
    if not started:
        raise GaveUpError("somebody has to look for the export")
    for attempt in range(4):
        await asyncio.sleep(attempt)
        try:
            status = tools["check_export"].callable(job=5)
        except Exception:
            continue
        if status == {"status": "done"}:
            return "Der Export ist fertig."
    if minds:
        raise GaveUpError("nobody knows whether the export is done")
    return "Der Export ist fertig."


@tool(read_only=True)
def find_limit(customer: str) -> dict:
    """Look up how much a customer may get."""
    return {"customer": customer, "limit": 100}


@tool(side_effect=True)
def pay_out(customer: str, euros: int) -> dict:
    """Pay a customer."""
    note("pay_out", customer=customer, euros=euros)
    return {"paid": euros}


async def pays_within_a_limit(offbook, *, swallows):
    """Looks up a limit before it pays. The defect swallows that it could not; the twin looks once more."""
    await allow(offbook)
    tools, limit = offbook.tools(find_limit, pay_out), None
    for _ in range(2):
        try:
            limit = tools["find_limit"].callable(customer="ann")["limit"]
        except Exception:
            await asyncio.sleep(1.0)
        if isinstance(limit, int) or swallows:
            break
    if not (swallows or (isinstance(limit, int) and limit >= 30)):
        raise GaveUpError("nobody knows how much ann may get")
    try:
        paid = tools["pay_out"].callable(customer="ann", euros=30)
    except Exception as error:
        raise GaveUpError("somebody has to look at the payment") from error
    if paid != {"paid": 30}:
        raise GaveUpError("somebody has to look at the payment")
    return {"client": "ann", "payé": 30}


@tool(read_only=True)
def find_price(order: int) -> dict:
    """Look up what an order has cost."""
    return {"euros": 10 * order}


@tool(side_effect=True)
def give_back(order: int, euros: int) -> dict:
    """Give a customer the price of an order back."""
    note("give_back", order=order, euros=euros)
    return {"given": euros}


THREE = (1, 2, 3)
THREE_AT_ONCE = {STEP: [asks_for(*(("find_price", {"order": order}) for order in THREE))]}


async def gives_three_back(offbook, *, by_id):
    """Looks up the prices that its model asks for, three at once, and pays each back: by its order, or by position."""
    tools = offbook.tools(find_price, give_back)
    try:
        messages = [{"role": "user", "content": "Orders 1, 2 and 3 never came."}]
        answer = await offbook.gateway.complete(messages, MODEL, tools=Toolbox([find_price]).functions, step_id=STEP)
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error
    known = [call for call in answer.tool_calls if call.raw_arguments is None and call.tool == "find_price"]
    known = [call for call in known if call.args.get("order") in THREE and isinstance(call.args["order"], int)]
    if by_id and sorted(call.args["order"] for call in known) != list(THREE):
        raise GaveUpError("the model asks for something else")
    try:
        prices = [tools["find_price"].callable(**call.args)["euros"] for call in known]
    except Exception as error:
        raise GaveUpError("somebody has to look up the prices") from error
    if not prices:
        raise GaveUpError("the model asks for nothing")
    orders = [call.args["order"] for call in known] if by_id else THREE
    for order, euros in zip(orders, prices, strict=False):
        give(tools["give_back"], order, euros)
    return "三件の返金が完了しました。"


def give(tool, order, euros):
    try:
        given = tool.callable(order=order, euros=euros)
    except Exception as error:
        raise GaveUpError(f"somebody has to look at order {order}") from error
    if given != {"given": euros}:
        raise GaveUpError(f"somebody has to look at order {order}")


DEPOSITS = {"fifty": [{"content": "50"}], "thirty": [{"content": "30"}]}
ACCOUNT = {"euros": 100}


@tool(side_effect=True)
def set_balance(euros: int) -> dict:
    """Write a balance."""
    note("set_balance", euros=euros)
    ACCOUNT["euros"] = euros
    return {"balance": euros}


def balance():
    """The state that two runs are to have in common."""
    return dict(ACCOUNT)


async def deposits(offbook, *, first_gets_a_bonus):
    """Asks for two deposits at once, and books each as it comes. The defect gives the first a bonus of a tenth."""
    book, came = offbook.tools(set_balance)["set_balance"], []

    async def deposit(step):
        try:
            messages = [{"role": "user", "content": f"How much is {step}?"}]
            answer = await offbook.gateway.complete(messages, MODEL, step_id=step)
        except ProviderError as error:
            raise GaveUpError("the model does not answer") from error
        euros = int(answer.content)
        came.append(step)
        bonus = euros // 10 if first_gets_a_bonus and len(came) == 1 else 0
        book.callable(euros=ACCOUNT["euros"] + euros + bonus)

    await asyncio.gather(deposit("fifty"), deposit("thirty"))
    return "Both deposits are booked."


async def deposits_what_comes(offbook, *, tells):
    """Books two deposits, each if the model says how much it is. If one is missing it gives up; the twin tells what is
    booked."""
    book, failed = offbook.tools(set_balance)["set_balance"], False
    for step in DEPOSITS:
        try:
            question = [{"role": "user", "content": f"How much is {step}?"}]
            euros = int((await offbook.gateway.complete(question, MODEL, step_id=step)).content)
        except (ProviderError, ValueError):
            failed = True
        else:
            book.callable(euros=ACCOUNT["euros"] + euros)
    if failed:
        raise GaveUpError(
            f"a deposit is missing; the balance is {ACCOUNT['euros']}" if tells else "a deposit is missing"
        )
    return "Both deposits are booked."


async def pays_after_two_looks(offbook, *, needs_one):
    """Looks a limit up twice, and pays within the last one that came. The defect pays without any."""
    await allow(offbook)
    tools, limit = offbook.tools(find_limit, pay_out), None
    for _ in range(2):
        try:
            limit = tools["find_limit"].callable(customer="ann")["limit"]
        except Exception:
            await asyncio.sleep(1.0)
    if needs_one and not (isinstance(limit, int) and limit >= 30):
        raise GaveUpError("nobody knows how much ann may get")
    try:
        if tools["pay_out"].callable(customer="ann", euros=30) == {"paid": 30}:
            return {"Kunde": "ann", "ausgezahlt": 30}
    except Exception as error:
        raise GaveUpError("somebody has to look at the payment") from error
    raise GaveUpError("somebody has to look at the payment")


async def answers_with_an_sdk(offbook, *, looks):
    """Asks with OpenAI's client, whose errors may escape. The twin looks at what it gets."""
    import openai  # noqa: PLC0415 - it takes a second

    client = openai.AsyncOpenAI(api_key="none", http_client=offbook.http_client(), timeout=10, max_retries=1)
    messages = [{"role": "user", "content": "Where is order 42?"}]
    if not looks:
        return (await client.chat.completions.create(model=MODEL, messages=messages)).choices[0].message.content.strip()
    try:
        answer = await client.chat.completions.create(model=MODEL, messages=messages)
        choice = answer.choices[0]
        text = choice.message.content if choice.finish_reason == "stop" else ""
    except (ValueError, TypeError, LookupError, AttributeError):
        text = ""
    return text or "Das weiß ich leider nicht."


def world(name, agent, knob, *, defect, sound, **more):
    """A pair whose twins differ in one argument."""
    return PlantedFunction(
        name=name,
        agent=agent,
        defect={knob: defect},
        sound={knob: sound},
        **{"answers": YES, "faults": FAULTS, **more},
    )


def refused(name, tool_name, refusal, **more):
    """A pair of which the defect's bank pays twice, and the twin's refuses."""
    return PlantedFunction(
        name=name,
        agent=insists,
        defect={"on": refusing(tool_name, None), "refusal": refusal},
        sound={"on": refusing(tool_name, refusal), "refusal": refusal},
        answers=YES,
        faults="http_error 500,tool_lost",
        verdict="repeated effect",
        at=f"tool={tool_name} call=1: tool_lost",
        evidence=f"{tool_name}(order_id=42) ran 2 times instead of once",
        twin_is=["recovered"],
        **more,
    )


PLANTED = [
    world(
        "writes an invoice blindly again",
        invoices,
        "reads_back",
        defect=False,
        sound=True,
        verdict="repeated effect",
        at="tool=create_invoice call=1: tool_lost",
        evidence="create_invoice(order=42) ran 2 times instead of once",
        twin_is=["recovered"],
    ),
    refused("pays again at a bank that says error", "refund_order", {"error": "order 42 is refunded already"}),
    refused("pays again at a bank that writes Error", "pay_order", "Error: order 42 is paid already"),
    refused(
        "pays again at a German bank",
        "erstatte",
        {"fehler": "Bestellung 42 ist bereits erstattet"},
        declares={"tools": {"erstatte": {"effect": True, "failed": "fehler"}}},
    ),
    refused(
        "pays again at a Japanese bank",
        "henkin",
        "エラー:返金済みです",
        declares={"tools": {"henkin": {"effect": True, "failed": "^エラー"}}},
    ),
    PlantedFunction(
        name="reports a refund twice",
        agent=loops,
        defect={"refuses": False, "minds": True},
        sound={"refuses": True, "minds": True},
        answers={"any": [asks_for(("refund", {"order_id": 42})), {"content": DONE}]},
        faults="http_error 500,doubled_tool_calls",
        verdict="repeated effect",
        at="call=1 attempt=1: doubled_tool_calls",
        evidence="refund(order_id=42) ran 2 times instead of once",
        twin_is=["recovered"],
    ),
    PlantedFunction(
        name="says done where nothing was reported",
        agent=loops,
        defect={"refuses": True, "minds": False},
        sound={"refuses": True, "minds": True},
        answers={"any": [asks_for(("refund", {"order_id": 42})), {"content": DONE}]},
        faults="http_error 500,wrong_types",
        verdict="missing effect",
        at="call=1 attempt=1: wrong_types*",
        evidence="refund(order_id=42) did not run",
        twin_is=["failed cleanly"],
    ),
    *[
        world(
            f"takes an export for done, {fault}",
            exports,
            "minds",
            defect=False,
            sound=True,
            faults="http_error 500,tool_error,tool_lost,tool_garbled,tool_empty",
            verdict="undetected",
            at=f"tool=check_export: {fault}",
            evidence="check_export",
            twin_is=["failed partway"],
        )
        for fault in ("tool_error", "tool_lost", "tool_garbled", "tool_empty")
    ],
    *[
        world(
            f"pays without a limit, {fault}",
            pays_within_a_limit,
            "swallows",
            defect=True,
            sound=False,
            verdict="undetected",
            at=f"tool=find_limit call=1: {fault}",
            evidence="find_limit",
            twin_is=["recovered"],
        )
        for fault in ("tool_error", "tool_lost", "tool_empty")
    ],
    world(
        "pays without a limit that was looked up twice",
        pays_after_two_looks,
        "needs_one",
        defect=False,
        sound=True,
        verdict="undetected",
        at="tool=find_limit: tool_error",
        evidence="find_limit",
        twin_is=["failed cleanly"],
    ),
    world(
        "leaves one deposit of two",
        deposits_what_comes,
        "tells",
        defect=False,
        sound=True,
        answers=DEPOSITS,
        faults="http_error 500",
        verdict="left behind",
        at="step=fifty call=1: http_error 500",
        evidence="set_balance(euros=130)",
        declares={"state": balance},
        twin_is=["failed partway"],
    ),
    world(
        "joins prices by position",
        gives_three_back,
        "by_id",
        defect=False,
        sound=True,
        answers=THREE_AT_ONCE,
        faults="http_error 500,invalid_tool_args,unknown_tool",
        verdict="wrong effect",
        at="step=agent call=1 attempt=1: invalid_tool_args*",
        evidence="give_back(order=2, euros=30) ran; without the fault it does not",
        also=["missing effect"],  # of the last order, if that is the one that is struck
        twin_is=["failed cleanly"],
    ),
    world(
        "gives the first deposit a bonus",
        deposits,
        "first_gets_a_bonus",
        defect=True,
        sound=False,
        answers=DEPOSITS,
        faults="held_until",
        verdict="wrong effect",
        at="step=fifty call=1 attempt=1: held_until step=thirty call=1",
        declares={"state": balance},
        twin_is=["recovered"],
    ),
    PlantedFunction(
        name="strips what is not there",
        agent=answers_with_an_sdk,
        defect={"looks": False},
        sound={"looks": True},
        answers={"any": [{"content": "Sie kommt morgen."}]},
        errors=(),
        faults="http_error 500,connection_reset,empty_response,timeout,wrong_shape",
        verdict="crashed",
        at="call=1 attempt=1: empty_response",
        evidence="AttributeError",
    ),
]
