"""Agents whose tools fail, and who say in several languages what became of it: the truth, or what sounds better."""

from __future__ import annotations

from offbook import tool
from offbook.errors import ProviderError
from tests.explore.zoo.functions.desk import MODEL, STEP, TOOLS, GaveUpError, is_complete
from tests.explore.zoo.ledger import note
from tests.explore.zoo.planted import PlantedFunction

YES = {STEP: [{"content": "Yes."}]}
FAULTS = "http_error 500,tool_error,tool_timeout,tool_lost"


async def allow(offbook, question="May it be done?"):
    """Ask the model for its leave."""
    try:
        answer = await offbook.gateway.complete([{"role": "user", "content": question}], MODEL, step_id=STEP)
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error
    if not is_complete(answer) or answer.content != "Yes.":
        raise GaveUpError("the model does not allow it")


def works(tool, **arguments):
    """Whether a tool did what it was asked to, as far as its caller knows."""
    try:
        return tool.callable(**arguments) == {"done": arguments}
    except Exception:
        return False


async def refunds(offbook, *, done, failed):
    """Refunds an order, and says one thing if it worked and another if it did not."""
    await allow(offbook)
    try:
        paid = offbook.tools(TOOLS)["refund"].callable(order_id=42)
    except Exception:
        return failed
    return done if paid == {"refunded": 42} else failed


@tool(side_effect=True)
def book_invoice(number: str) -> dict:
    """Book an invoice."""
    note("book_invoice", number=number)
    return {"done": {"number": number}}


INVOICES = ("R-1", "R-2", "R-3")


async def books_invoices(offbook, *, tells):
    """Books three invoices, and tells which of them it could not book."""
    await allow(offbook)
    book = offbook.tools(book_invoice)["book_invoice"]
    missed = [number for number in INVOICES if not works(book, number=number)]
    return tells([number for number in INVOICES if number not in missed], missed)


def all_booked(booked, missed):
    return f"{len(INVOICES)} of {len(INVOICES)} invoices booked."


def some_booked(booked, missed):
    by_hand = f"Not booked: {', '.join(missed)}. Please book them by hand."
    return f"Partial: {len(booked)} of {len(INVOICES)} invoices booked. {by_hand}" if missed else all_booked([], [])


def none_booked(booked, missed):
    return "Partial: nothing was booked. Please book all invoices again." if missed else all_booked([], [])


def alle_gebucht(booked, missed):
    return {"gebucht": list(INVOICES), "offen": []}


def teils_gebucht(booked, missed):
    return {"gebucht": booked, "offen": missed}


def tout_saisi(booked, missed):
    return f"Les factures {', '.join(INVOICES)} ont été saisies."


def booked_list(booked, missed):
    return booked


def whole_list(booked, missed):
    return list(INVOICES)


def en_partie_saisi(booked, missed):
    if not missed:
        return tout_saisi(booked, missed)
    return f"Saisies : {', '.join(booked) or 'aucune'}. À saisir à la main : {', '.join(missed)}."


@tool(side_effect=True)
def send_mail(to: str) -> dict:
    """Write to a customer."""
    note("send_mail", to=to)
    return {"done": {"to": to}}


async def refunds_and_writes(offbook, *, done, unwritten):
    """Refunds an order and writes to the customer, and says so."""
    await allow(offbook)
    tools = offbook.tools(TOOLS["refund"], send_mail)
    try:
        paid = tools["refund"].callable(order_id=42)
    except Exception as error:
        raise GaveUpError("somebody has to look at the refund") from error
    if paid != {"refunded": 42}:
        raise GaveUpError("nobody knows whether it was refunded")
    return done if works(tools["send_mail"], to="ann@example.org") else unwritten


@tool(side_effect=True)
def charge(order: int, euros: int) -> dict:
    """Charge a card."""
    note("charge", order=order, euros=euros)
    return {"done": {"order": order, "euros": euros}}


@tool(side_effect=True, undoes="charge")
def pay_back(order: int, euros: int) -> dict:
    """Take a charge back."""
    note("pay_back", order=order, euros=euros)
    return {"done": {"order": order, "euros": euros}}


@tool(side_effect=True)
def ship(order: int) -> dict:
    """Send the goods."""
    note("ship", order=order)
    return {"done": {"order": order}}


async def sells(offbook, *, done, failed, charged="", takes_back=False):
    """Charges a card and sends the goods. If these cannot be sent, it says so, and takes the charge back or names it.

    An order whose charge itself fails is handed over: nobody knows what became of it.
    """
    await allow(offbook)
    tools = offbook.tools(charge, pay_back, ship)
    if not works(tools["charge"], order=7, euros=30):
        raise GaveUpError("somebody has to look whether the card was charged")
    if works(tools["ship"], order=7):
        return done
    if takes_back and not works(tools["pay_back"], order=7, euros=30):
        raise GaveUpError("somebody has to pay order 7 back")
    if failed is None:
        raise GaveUpError("order 7 is cancelled")
    return charged or failed


class Trip:
    """Books a flight, a room and a car, and cancels them."""

    def __init__(self):
        self.booked = set()


TRIP = Trip()


def booking(part):
    def book(city: str) -> dict:
        note(f"book_{part}", city=city)
        TRIP.booked.add(part)
        return {"done": {"city": city}}

    def cancel(city: str) -> dict:
        if part not in TRIP.booked:
            raise LookupError("there is nothing to cancel")
        note(f"cancel_{part}", city=city)
        return {"done": {"city": city}}

    book.__name__, cancel.__name__ = f"book_{part}", f"cancel_{part}"
    return tool(side_effect=True)(book), tool(side_effect=True, undoes=f"book_{part}")(cancel)


PARTS = ("flight", "room", "car")
BOOKINGS = [each for part in PARTS for each in booking(part)]
CANCELS = {f"cancel_{part}": f"book_{part}" for part in PARTS}


async def travels(offbook, *, parts=PARTS, takes_back, says=None):
    """Books the parts of a trip. If one fails, it takes back some of those that may be booked, and gives up."""
    await allow(offbook)
    tools, tried = offbook.tools(*BOOKINGS), []
    for part in parts:
        tried.append(part)
        if not works(tools[f"book_{part}"], city="Oslo"):
            break
    else:
        return "The trip to Oslo is booked."
    for each in takes_back(tried):
        try:
            tools[f"cancel_{each}"].callable(city="Oslo")
        except LookupError:
            continue  # it was never booked
        except Exception as error:
            raise GaveUpError(f"somebody has to cancel: {each}") from error
    if says is None:
        raise GaveUpError("there is no trip, and everything is taken back")
    return says(tried)


def everything(tried):
    return tried[::-1]


def the_last_two(tried):
    """The part that failed and the one before it: what came earlier is forgotten."""
    return tried[:-3:-1]


def nothing(tried):
    return []


def sorry(tried):
    return "Sorry, we could not book your trip."


def sorry_in_french(tried):
    return "Désolé, votre voyage n'a pas pu être réservé."


def sorry_but_booked(tried):
    return f"Sorry, there is no {tried[-1]} in Oslo. Already booked: {', '.join(tried[:-1]) or 'nothing'}."


@tool(side_effect=True)
def open_case(order: int) -> dict:
    """Open a case for a person."""
    note("open_case", order=order)
    return {"done": {"order": order}}


@tool(side_effect=True)
def hold_money(order: int) -> dict:
    """Reserve money on the customer's card."""
    note("hold_money", order=order)
    return {"done": {"order": order}}


async def prepares_and_refunds(offbook, *, by):
    """Opens a case, or holds money, and refunds. If that fails it gives up, and what it prepared stays."""
    await allow(offbook)
    tools = offbook.tools(open_case, hold_money, TOOLS["refund"])
    if not works(tools[by], order=42):
        raise GaveUpError("it could not be prepared")
    try:
        if tools["refund"].callable(order_id=42) == {"refunded": 42}:
            return "Order 42 is refunded."
    except Exception as error:
        raise GaveUpError("the refund failed") from error
    raise GaveUpError("the refund is nonsense")


def telling(name, done, claim, honest, **more):
    """A refund that fails: the defect claims it all the same, and its twin is honest."""
    at = "tool=refund call=1: tool_error"
    return PlantedFunction(
        name=name,
        agent=refunds,
        defect={"done": done, "failed": claim},
        sound={"done": done, "failed": honest},
        answers=YES,
        faults=FAULTS,
        verdict="missing effect",
        at=at,
        evidence="refund(order_id=42)",
        also=["undetected (went on without)"],
        **{"twin_is": ["different outcome"], **more},
    )


REFUNDED = "Order 42 is refunded."
ERSTATTET = {"ok": True, "bestellung": 42, "betrag": 30}
CLAIMS = [
    telling("claims a refund in English", REFUNDED, REFUNDED, "A person will look at it."),
    telling(
        "claims a refund in German",
        "Ihre Bestellung 42 wurde erstattet.",
        "Ihre Bestellung 42 wurde erstattet.",
        "Ihr Antrag konnte noch nicht geprüft werden. Eine Kollegin meldet sich bei Ihnen.",
    ),
    telling(
        "claims a refund in French",
        "Votre commande 42 est remboursée.",
        "Votre commande 42 est remboursée.",
        "Un conseiller va reprendre votre dossier.",
    ),
    telling(
        "claims a refund in Japanese",
        "ご注文42番の返金が完了しました。",
        "ご注文42番の返金が完了しました。",
        "返金の結果を確認できませんでした。担当者よりご連絡いたします。",
    ),
    telling(
        "claims a refund that its twin asks about",
        "La commande 42 est remboursée.",
        "La commande 42 est remboursée. Bonne journée !",
        "La commande 42 est remboursée ? Un conseiller va le vérifier.",
    ),
    telling("claims a refund after an apology", REFUNDED, f"Sorry for the wait! {REFUNDED}", "Sorry for the wait!"),
    telling(
        "claims a refund after an apology in Japanese",
        "ご注文42番の返金が完了しました。",
        "お待たせいたしました。ご注文42番の返金が完了しました。",
        "お待たせいたしました。ご注文42番の返金はまだ完了していません。",
    ),
    telling(
        "claims a refund that its twin denies in the same words",
        "Ihre Bestellung 42 ist erstattet.",
        "Ihre Bestellung 42 ist erstattet. Das hat leider etwas gedauert.",
        "Ihre Bestellung 42 ist noch nicht erstattet. Das übernimmt eine Kollegin.",
    ),
    telling(
        "claims a refund in a dict",
        ERSTATTET,
        ERSTATTET,
        {"ok": False, "bestellung": 42, "fehler": "Die Bank antwortet nicht", "weiter": "Sachbearbeitung"},
        twin_is=["different outcome", "failed cleanly"],
    ),
    telling(
        "claims a refund in a dict without booleans",
        {"commande": 42, "statut": "remboursée"},
        {"commande": 42, "statut": "remboursée", "remarque": "délai inhabituel"},
        {"commande": 42, "statut": "transmise à un conseiller"},
    ),
    telling(
        "claims a refund, where a hand-over is declared",
        "返金しました。",
        "返金しました。",
        "担当者に引き継ぎました。",
        declares={"gave_up": "引き継ぎ"},
        twin_is=["failed cleanly"],
    ),
]


def partly(name, lie, honest, **more):
    """Invoices of which one cannot be booked."""
    return PlantedFunction(
        name=name,
        agent=books_invoices,
        defect={"tells": lie},
        sound={"tells": honest},
        answers=YES,
        faults=FAULTS,
        at="tool=book_invoice call=2: tool_error",
        **{
            "verdict": "missing effect",
            "evidence": 'book_invoice(number="R-2")',
            "also": ["undetected (went on without)"],
            "twin_is": ["different outcome"],
            **more,
        },
    )


PARTIAL = [
    partly("claims all of three invoices", all_booked, some_booked),
    partly("claims all of three invoices in a dict", alle_gebucht, teils_gebucht),
    partly("claims all of three invoices in French", tout_saisi, en_partie_saisi),
    partly("claims all of three invoices in a list", whole_list, booked_list),
    partly(
        "says that nothing was booked",
        none_booked,
        some_booked,
        verdict="left behind",
        evidence='book_invoice(number="R-1")',
        also=[],
        declares={"gave_up": "^Partial"},
        twin_is=["failed partway"],
    ),
    PlantedFunction(
        name="claims a mail",
        agent=refunds_and_writes,
        defect={
            "done": "La commande 42 est remboursée. Un courriel vous a été envoyé.",
            "unwritten": "La commande 42 est remboursée. Un courriel vous a été envoyé.",
        },
        sound={
            "done": "La commande 42 est remboursée. Un courriel vous a été envoyé.",
            "unwritten": "La commande 42 est remboursée. Le courriel n'est pas parti.",
        },
        answers=YES,
        faults=FAULTS,
        verdict="missing effect",
        at="tool=send_mail call=1: tool_error",
        evidence='send_mail(to="ann@example.org")',
        also=["undetected (went on without)"],
        twin_is=["different outcome"],
    ),
]


def sold(name, done, gave_up, denial, sound, **more):
    """A sale whose goods cannot be sent, after the card was charged."""
    return PlantedFunction(
        name=name,
        agent=sells,
        defect={"done": done, "failed": denial},
        sound={"done": done, "failed": denial, **sound},
        answers=YES,
        faults="http_error 500,tool_error",
        undoes={"pay_back": "charge"},
        verdict="left behind",
        at="tool=ship call=1: tool_error",
        evidence="charge(order=7, euros=30)",
        declares={"gave_up": gave_up} if gave_up else {},
        **more,
    )


def stayed(name, agent, at, evidence, **more):
    return PlantedFunction(
        name=name,
        agent=agent,
        answers=YES,
        verdict="left behind",
        at=at,
        evidence=evidence,
        **{"faults": FAULTS, **more},
    )


LEFT = [
    sold(
        "says that nothing was charged",
        "Order 7 is on its way.",
        "Nothing was charged",
        "Your order failed. Nothing was charged.",
        {"takes_back": True},
        twin_is=["failed cleanly", "failed partway"],
    ),
    sold(
        "says in German that nothing was charged",
        "Ihre Bestellung 7 ist unterwegs.",
        "nicht (versandt|abgebucht)",
        "Ihre Bestellung 7 konnte nicht versandt werden. Es wurde nichts abgebucht.",
        {
            "charged": "Ihre Bestellung 7 konnte nicht versandt werden. Ihre Karte ist mit 30 Euro belastet; "
            "eine Kollegin meldet sich."
        },
        twin_is=["failed partway"],
    ),
    sold(
        "says in a Japanese dict that nothing was charged",
        {"注文": 7, "状態": "発送済み"},
        "発送失敗",
        {"注文": 7, "状態": "発送失敗", "請求": 0},
        {"charged": {"注文": 7, "状態": "発送失敗", "請求": 30}},
        twin_is=["failed partway"],
    ),
    sold(
        "says in a dict that nothing was charged",
        {"ok": True, "charged": True, "shipped": True},
        "",
        {"ok": False, "charged": False, "shipped": False},
        {"charged": {"ok": False, "charged": True, "shipped": False}},
        twin_is=["failed partway"],
    ),
    sold("raises after a charge", "Order 7 is on its way.", "", None, {"takes_back": True}),
    stayed(
        "takes back only its last bookings",
        travels,
        "tool=book_car call=1: tool_error",
        'book_flight(city="Oslo")',
        defect={"takes_back": the_last_two},
        sound={"takes_back": everything},
        undoes=CANCELS,
        twin_is=["failed cleanly", "failed partway"],
    ),
    stayed(
        "books a flight and is sorry",
        travels,
        "tool=book_room call=1: tool_error",
        'book_flight(city="Oslo")',
        defect={"parts": PARTS[:2], "takes_back": nothing, "says": sorry},
        sound={"parts": PARTS[:2], "takes_back": everything, "says": sorry},
        undoes=CANCELS,
        declares={"gave_up": "^Sorry"},
    ),
    stayed(
        "books a flight and is sorry in French",
        travels,
        "tool=book_room call=1: tool_error",
        'book_flight(city="Oslo")',
        defect={"parts": PARTS[:2], "takes_back": nothing, "says": sorry_in_french},
        sound={"parts": PARTS[:2], "takes_back": everything, "says": sorry_in_french},
        undoes=CANCELS,
        declares={"gave_up": "^Désolé"},
    ),
    stayed(
        "books a flight and names only its sorrow",
        travels,
        "tool=book_room call=1: tool_error",
        'book_flight(city="Oslo")',
        defect={"parts": PARTS[:2], "takes_back": nothing, "says": sorry},
        sound={"parts": PARTS[:2], "takes_back": nothing, "says": sorry_but_booked},
        faults="http_error 500,tool_error",
        declares={"gave_up": "^Sorry"},
        twin_is=["failed partway"],
    ),
    stayed(
        "holds money and gives up",
        prepares_and_refunds,
        "tool=refund call=1: tool_error",
        "hold_money(order=42)",
        defect={"by": "hold_money"},
        sound={"by": "open_case"},
        faults="http_error 500,tool_error",
        declares={"tools": {"open_case": {"effect": True, "may_remain": True}}},
        twin_is=["failed cleanly", "failed partway"],
    ),
]
PLANTED = [*CLAIMS, *PARTIAL, *LEFT]
