"""Agents that are workflows: YAML with one line that differs between the twins, and real tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from offbook.explore.explorer import Subject
from offbook.explore.settings import ExploreSettings
from offbook.subjects.workflow import WorkflowSubject
from offbook.workflow.file.load import parse_workflow
from tests.explore.zoo.functions.desk import asks_for
from tests.explore.zoo.functions.effects import is_no_hotel_without_a_flight
from tests.explore.zoo.planted import Planted, Twin, write_recording


class PlantedWorkflow(Planted, frozen=True, kw_only=True):
    """A defect of a workflow: its text, in which `DECISION` stands for what the twins decide."""

    text: str
    defect: str
    sound: str
    answers: Mapping[str, Any]
    errors: Sequence[Any] = ("RefusedError",)

    @property
    def kind(self) -> str:
        return "workflow"

    @property
    def sound_agent(self) -> object:
        text = self.text.replace("DECISION", self.sound)
        return text, self.answers, self.invariants, self.faults, self.declares, self.errors

    @contextmanager
    def open(self, twin: Twin, folder: Path) -> Iterator[Subject]:
        text = self.text.replace("DECISION", self.defect if twin == "defect" else self.sound)
        subject = WorkflowSubject(
            parse_workflow(text, source=self.name),
            write_recording(folder, self.answers),
            folder=Path(__file__).parent,
            settings=ExploreSettings(declared=tuple(self.errors), runs_tools=True, **self.subject_options),
        )
        with closing(subject):
            yield subject


HEAD = "name: zoo\nconfig: {provider: openai, model: m, retry: {max_retries: 1, backoff_s: 1.0}}\n"

TELL = """\
  - id: tell
    type: loop
    until: "state.told.endsWith('.')"
    max_iterations: 2
    steps:
      - {id: say, type: llm_call, prompt: "Say in one sentence that it is done.", output: told}
  - {id: stop, type: tool, tool: stop, args: {reason: it may not be done}}
"""
PUBLISHES = (
    HEAD
    + """\
tools: {publish: "shop:publish", stop: "shop:stop"}
state: {draft: A fine chair., told: ""}
steps:
  - {id: review, type: llm_call, prompt: "Is this good? {state.draft}", output: review, on_failure: continue}
  - id: route
    type: router
    depends_on: [review]
    conditions: [{expression: "DECISION", target: publish}]
    default: refuse
  - {id: refuse, type: tool, tool: stop, args: {reason: the review is not good}}
  - {id: publish, type: tool, tool: publish, args: {text: "{state.draft}"}, retry: {max_retries: 0}, output: page}
  - id: posted
    type: router
    depends_on: [publish]
    conditions: [{expression: "state.page == 'published'", target: tell}]
    default: stop
"""
    + TELL
)
PAYS = (
    HEAD
    + """\
tools: {pay: "shop:pay", stop: "shop:stop"}
state: {told: ""}
steps:
  - {id: pay, type: tool, tool: pay, args: {bill: 7}, PAYING, output: paid}
  - id: paid
    type: router
    depends_on: [pay]
    conditions: [{expression: "CHECK", target: tell}]
    default: stop
"""
    + TELL
)
ASKS = (
    HEAD
    + """\
state: {answer: ""}
steps:
  - id: ask
    type: loop
    until: "state.answer.endsWith('.')"
    max_iterations: DECISION
    steps:
      - {id: say, type: llm_call, prompt: "Where is order 42?", output: answer}
"""
)
PRICES = (
    HEAD
    + """\
tools: {find_price: "shop:find_price", print_label: "shop:print_label", stop: "shop:stop"}
state: {told: "", label: ""}
steps:
  - {id: look, type: tool, tool: find_price, args: {product: chair}, output: price}
  - id: known
    type: router
    depends_on: [look]
    conditions: [{expression: "DECISION", target: tell}]
    default: stop
  - id: tell
    type: loop
    until: "state.told.endsWith('.')"
    max_iterations: 2
    steps:
      - {id: say, type: llm_call, prompt: "Praise a chair.", output: told}
  - id: label
    type: loop
    depends_on: [tell]
    until: "state.label.endsWith('euros.')"
    max_iterations: 1
    steps:
      - {id: print, type: tool, tool: print_label, args: {text: "{state.told} {state.price} euros."}, output: label}
  - {id: stop, type: tool, tool: stop, args: {reason: there is no price}}
"""
)
TRIP = (
    HEAD
    + """\
tools:
  book_hotel: "shop:book_hotel"
  book_flight: "shop:book_flight"
  cancel_hotel: "shop:cancel_hotel"
  stop: "shop:stop"
state: {said: ""}
steps:
  - {id: city, type: llm_call, prompt: "Where to?", output: city}
  - id: known
    type: router
    depends_on: [city]
    conditions: [{expression: "state.city == 'Oslo'", target: hotel}]
    default: unknown
  - {id: unknown, type: tool, tool: stop, args: {reason: there is no such city}}
  - id: hotel
    type: tool
    tool: book_hotel
    args: {city: Oslo}
    retry: {max_retries: 0}
    on_failure: continue
    output: hotel
  - id: room
    type: router
    depends_on: [hotel]
    conditions: [{expression: "state.hotel == 'hotel'", target: flight}]
    default: cancel
  - id: flight
    type: tool
    tool: book_flight
    args: {city: Oslo}
    retry: {max_retries: 0}
    on_failure: continue
    output: flight
  - id: flies
    type: router
    depends_on: [flight]
    conditions: [{expression: "state.flight == 'flight'", target: goodbye}]
    default: cancel
  - id: goodbye
    type: loop
    until: "state.said.endsWith('.')"
    max_iterations: 2
    steps:
      - {id: say, type: llm_call, prompt: "Say goodbye.", output: said}
  - {id: cancel, type: tool, tool: CANCEL, retry: {max_retries: 0}}
  - {id: again, type: tool, depends_on: [cancel], tool: AGAIN, retry: {max_retries: 0}}
  - {id: stop, type: tool, depends_on: [again], tool: stop, args: {reason: there is no flight}}
"""
)
DESK = (
    HEAD
    + """\
tools: {refund: "shop:DECISION", reply: "shop:reply"}
state: {said: ""}
steps:
  - id: desk
    type: loop
    until: "state.said.endsWith('.')"
    max_iterations: 1
    steps:
      - id: agent
        type: agent
        prompt: "Order 42 never came."
        tools: [refund]
        terminal_tool: reply
        required_steps: [refund]
        output: said
"""
)

HANDS_OVER = (
    HEAD
    + """\
tools: {pay: "shop:pay", reply: "shop:reply"}
state: {paid: "", told: ""}
steps:
  - {id: ask, type: llm_call, prompt: "May bill 7 be paid?", output: asked}
  - id: asked
    type: router
    depends_on: [ask]
    conditions: [{expression: "state.asked == 'yes'", target: pay}]
    default: person
  - {id: pay, type: tool, tool: pay, args: {bill: 7}, retry: {max_retries: 0}, on_failure: continue, output: paid}
  - id: paid
    type: router
    depends_on: [pay]
    conditions: [{expression: "DECISION", target: tell}]
    default: person
  - {id: tell, type: tool, tool: reply, args: {text: Die Rechnung ist bezahlt.}, output: told}
  - {id: person, type: tool, tool: reply, args: {text: Eine Kollegin meldet sich bei Ihnen.}, output: told}
"""
)

STOP = "stop, args: {reason: there is no flight}"
CANCEL = "cancel_hotel, args: {city: Oslo}"
TRIP_ANSWERS = {"city": [{"content": "Oslo"}], "say": [{"content": "Have a good trip."}]}
ONCE = PAYS.replace("PAYING", "retry: {max_retries: 0}, on_failure: continue")
SAID = {"say": [{"content": "It is done."}]}

PLANTED = [
    PlantedWorkflow(
        name="publishes unchecked",
        text=PUBLISHES,
        defect="state.review == null || state.review == 'ok'",
        sound="state.review == 'ok'",
        answers={"review": [{"content": "ok"}], **SAID},
        verdict="undetected (went on without)",
        at="step=review call=1: http_error 500",
        evidence="review",
        also=["undetected (broken data)"],
    ),
    PlantedWorkflow(
        name="publishes on an empty review",
        text=PUBLISHES,
        defect="state.review != null && !state.review.contains('bad')",
        sound="state.review == 'ok'",
        answers={"review": [{"content": "ok"}], **SAID},
        verdict="undetected (went on without)",
        at="step=review call=1 attempt=1: empty_response",
        also=["undetected (broken data)"],
    ),
    PlantedWorkflow(
        name="pays again",
        text=PAYS.replace("CHECK", "state.paid == 'paid'").replace("PAYING", "retry: {max_retries: DECISION}"),
        defect="2",
        sound="0",
        answers=SAID,
        verdict="repeated effect",
        at="tool=pay call=1: tool_lost",
        evidence="pay(bill=7)",
    ),
    PlantedWorkflow(
        name="says done",
        text=ONCE.replace("CHECK", "DECISION"),
        defect="state.paid != 'declined'",
        sound="state.paid == 'paid'",
        answers=SAID,
        verdict="missing effect",
        at="tool=pay call=1: tool_error",
        evidence="pay",
        also=["undetected (broken data)", "undetected (went on without)"],
    ),
    PlantedWorkflow(
        name="asks until it says something",
        text=ASKS,
        defect="100000",
        sound="3",
        answers={"say": [{"content": "It is on its way."}]},
        verdict="hung",
        at="step=say since=1: empty_response",
        also=["bad retry (storm)"],
    ),
    PlantedWorkflow(
        name="believes a garbled result",
        text=PRICES,
        defect="state.price != 0",
        sound="state.price > 0",
        answers={"say": [{"content": "A fine chair."}]},
        verdict="undetected (broken data)",
        at="tool=find_price call=1: tool_garbled",
        also=["undetected (went on without)"],
    ),
    PlantedWorkflow(
        name="cancels twice",
        text=TRIP.replace("CANCEL", CANCEL).replace("AGAIN", "DECISION"),
        defect=CANCEL,
        sound=STOP,
        answers=TRIP_ANSWERS,
        invariants=[is_no_hotel_without_a_flight],
        undoes={"cancel_hotel": "book_hotel"},
        verdict="wrong effect",
        at="tool=book_flight call=1: tool_error",
        evidence="cancel_hotel",
        also=["repeated effect"],
    ),
    PlantedWorkflow(
        name="cancels never",
        text=TRIP.replace("CANCEL", "DECISION").replace("AGAIN", STOP),
        defect=STOP,
        sound=CANCEL,
        answers=TRIP_ANSWERS,
        undoes={"cancel_hotel": "book_hotel"},
        invariants=[is_no_hotel_without_a_flight],
        verdict="left behind",
        also=["undetected (failed check)"],
        at="tool=book_flight call=1: tool_error",
        evidence="a hotel is booked, and no flight",
    ),
    PlantedWorkflow(
        name="refunds when it is asked to",
        text=DESK,
        defect="refund",
        sound="refund_once",
        answers={
            "agent": [asks_for(("refund", {"order_id": 42})), asks_for(("reply", {"text": "Order 42 is refunded."}))]
        },
        verdict="repeated effect",
        at="tool=refund call=1: tool_lost",
        evidence="refund(order_id=42)",
    ),
    PlantedWorkflow(
        name="claims a payment in German",
        text=HANDS_OVER,
        defect="state.paid != 'declined'",
        sound="state.paid == 'paid'",
        answers={"ask": [{"content": "yes"}]},
        faults="http_error 500,tool_error",
        verdict="missing effect",
        at="tool=pay call=1: tool_error",
        evidence="pay(bill=7)",
        also=["undetected (went on without)"],
    ),
    PlantedWorkflow(
        name="leaves a hotel",
        text=TRIP.replace("CANCEL", "DECISION").replace("AGAIN", STOP),
        defect=STOP,
        sound=CANCEL,
        answers=TRIP_ANSWERS,
        undoes={"cancel_hotel": "book_hotel"},
        faults="http_error 500,tool_error",
        verdict="left behind",
        at="tool=book_flight call=1: tool_error",
        evidence='book_hotel(city="Oslo")',
        twin_is=["failed cleanly", "failed partway"],
    ),
    PlantedWorkflow(
        name="pays again at a bank that does not refuse",
        text=PAYS.replace("shop:pay", "shop:DECISION")
        .replace("PAYING", "retry: {max_retries: 2}")
        .replace("CHECK", "state.paid == 'paid' || state.paid.startsWith('Error')"),
        defect="pay_each_time",
        sound="pay_once",
        answers=SAID,
        faults="http_error 500,tool_lost",
        verdict="repeated effect",
        at="tool=pay call=1: tool_lost",
        evidence="(bill=7) ran 2 times instead of once",
    ),
]
