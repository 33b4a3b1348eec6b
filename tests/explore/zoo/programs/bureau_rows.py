"""The defects of the bureau: what is said, left behind, read back or not seen at all."""

from tests.explore.zoo.functions.desk import asks_for
from tests.explore.zoo.programs import PlantedMcpProgram, PlantedProgram

YES = {"content": "Yes."}
SOME = "http_error 500,connection_reset,empty_response"
ONCE_MORE = "refund(order_id=42) ran 2 times instead of once"


def bureau(name, agent, verdict, at, evidence="", *, file="bureau.py", **more):
    return PlantedProgram(
        file=file,
        name=name,
        agent=agent,
        verdict=verdict,
        at=at,
        evidence=evidence,
        **{"faults": SOME, "side_effects": (), **more},
    )


def invoicing(name, *, found=(), late=(), agent="invoices", **more):
    """A program whose tools are replayed, with what its recording knows of an invoice."""
    no = {"arguments": {"order": 42}, "result": {"order": 42, "exists": False}}
    created = {"arguments": {"order": 42}, "result": {"invoiced": 42}}
    tools = {"find_invoice": [no, *found, *late], "create_invoice": [created]}
    return bureau(
        name,
        agent,
        "repeated effect",
        "tool=create_invoice call=1: tool_lost",
        "create_invoice(order=42) ran 2 times instead of once",
        **{
            "faults": "http_error 500,tool_error,tool_lost",
            "answers_by_step": {"any": [YES], "_tools": tools},
            "declares": {"tools": INVOICE_TOOLS},
            "is_replayed": True,
            **more,
        },
    )


INVOICE_TOOLS = {
    "find_invoice": {"function": "__main__:find_invoice", "read_only": True},
    "create_invoice": {"function": "__main__:create_invoice", "effect": True},
}
EXISTS = {"arguments": {"order": 42}, "result": {"order": 42, "exists": True}}
HONEST = [
    bureau(
        "reads an answer that is not there",
        "exits",
        "crashed",
        "call=1: http_error 500",
        "KeyError",
        answers=[{"content": "Sie kommt morgen."}],
        errors=(),
        twin_is=["failed cleanly"],
    ),
    bureau(
        "leaves a flight and exits with 1",
        "leaves_a_flight",
        "left behind",
        "call=2: http_error 500",
        'book_flight(city="Oslo")',
        answers=[YES, YES],
        reports=True,
        errors=(),
        undoes={"cancel_flight": "book_flight"},
        twin_is=["failed cleanly", "failed partway"],
    ),
    *[
        bureau(
            f"claims a refund in {language}",
            f"hands_over_in_{language.lower()}",
            "missing effect",
            "call=1: http_error 500",
            "refund(order_id=42)",
            reports=True,
            side_effects=("refund",),
            twin_is=["different outcome"],
        )
        for language in ("German", "Japanese")
    ],
    bureau(
        "claims three of three invoices",
        "books_two_of_three",
        "missing effect",
        "call=2: http_error 500",
        'book_invoice(number="R-2")',
        answers=[YES, YES, YES],
        reports=True,
        twin_is=["different outcome"],
    ),
]
SEEN = [
    bureau(
        "runs a tool again, taken over",
        "runs_a_tool_again",
        "repeated effect",
        "call=2 attempt=1: http_error 500",
        ONCE_MORE,
        declares={"tools": {"refund": {"function": "desk:refund", "effect": True}}, "runs_tools": True},
        twin_is=["recovered"],
    ),
    bureau(
        "runs a tool again, with noise",
        "runs_a_tool_again_with_noise",
        "repeated effect",
        "call=2 attempt=1: http_error 500",
        ONCE_MORE,
        reports=True,
        twin_is=["recovered"],
    ),
    bureau(
        "pays again, with noise",
        "pays_again_with_noise",
        "repeated effect",
        "call=2 attempt=1: http_error 500",
        ONCE_MORE,
        file="desk.sh",
        sound="pays_with_noise",
        faults="http_error 500",
        reports=True,
        twin_is=["recovered"],
    ),
    bureau(
        "refunds when it is asked to, with noise",
        "refunds_when_asked_with_noise",
        "repeated effect",
        "call=1 attempt=1: doubled_tool_calls",
        ONCE_MORE,
        file="desk.mjs",
        sound="serves_with_noise",
        faults="http_error 500,doubled_tool_calls",
        reports=True,
        twin_is=["recovered"],
    ),
    bureau(
        "runs a streamed call again",
        "streams_a_tool_call",
        "undecided",  # nobody sees what a program does with a broken call
        "call=1 attempt=1 chunk=*: stream_truncate raise=clean",
        "cannot see refund",
        faults="stream_truncate",
        side_effects=("refund",),
        twin_is=["recovered"],
    ),
]
WORLDS = [
    invoicing("writes an invoice blindly again", twin_is=["undecided"], undecided=0.5),
    invoicing(
        "writes an invoice blindly again, and looks at the end",
        agent="invoices_and_looks",
        found=[EXISTS],
        twin_is=["recovered"],
        undecided=0.5,
    ),
    invoicing(
        "writes an invoice blindly again, where somebody wrote down what is found",
        late=[{"when": "after create_invoice", **EXISTS}],
        twin_is=["recovered"],
    ),
    invoicing(
        "writes an invoice blindly again, for real",
        answers_by_step={"any": [YES]},
        declares={"tools": INVOICE_TOOLS, "runs_tools": True},
        env={"ZOO_REAL": "1"},
        is_replayed=False,
        twin_is=["recovered"],
    ),
    bureau(
        "gives the first deposit a bonus",
        "deposits",
        "wrong effect",
        "step=rail call=1 attempt=1: held_until step=bus call=1",
        answers_by_step={"rail": [{"content": "50"}], "bus": [{"content": "30"}]},
        faults="held_until",
        reports=True,
        declares={"state_of": "$TMPDIR/balance"},
        twin_is=["recovered"],
    ),
    bureau(
        "joins prices by position",
        "gives_three_back",
        "wrong effect",
        "call=1 attempt=1: invalid_tool_args*",
        "give_back(order=2, euros=30) ran; without the fault it does not",
        answers=[asks_for(*(("find_price", {"order": order}) for order in (1, 2, 3)))],
        faults="http_error 500,invalid_tool_args",
        also=["missing effect"],  # of the last order, if that is the one that is struck
        reports=True,
        twin_is=["failed cleanly"],
    ),
]
MCP = [
    PlantedMcpProgram(
        name="claims a refund in French",
        agent="hands_over_in_french",
        faults="http_error 500,tool_error,mcp_error",
        verdict="missing effect",
        at="tool=desk.refund call=1: mcp_error",
        evidence="desk.refund(order_id=42) did not run",
        also=["undetected (went on without)"],
    ),
    PlantedMcpProgram(
        name="says that nothing was refunded",
        agent="leaves_a_refund",
        faults="http_error 500,tool_error,tool_timeout",
        verdict="left behind",
        at="tool=desk.mail call=1: tool_error",
        evidence="desk.refund(order_id=42)",
        twin_is=["failed partway"],
    ),
    PlantedMcpProgram(
        name="claims a refund and a mail in a Japanese dict",
        agent="does_two_things",
        faults="http_error 500,tool_error,mcp_error",
        verdict="missing effect",
        at="tool=desk.mail call=1: tool_error",
        evidence='desk.mail(to="ann@example.org", about=42) did not run',
        also=["undetected (went on without)"],
        twin_is=["different outcome"],
    ),
]
PLANTED = [*HONEST, *SEEN, *WORLDS, *MCP]
