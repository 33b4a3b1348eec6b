"""Patterns of use from an agent's view: failures, edge cases, dependent calls, order of calls."""

import pytest

from offbook.scenarios import Mocks, Trajectory, expected, match_trajectory, sequence
from tests.scenarios.mocks.resolving import answers_to, answers_to_many, resolve_all, virtually


def test_successive_calls_may_be_distinguished_by_their_index():
    statuses = ["processing", "complete", "archived"]
    check_status = lambda args, ctx: {"status": statuses[min(ctx.call_index, 2)]}  # noqa: E731
    assert [answer["status"] for answer in answers_to_many(check_status, 4)] == [*statuses, "archived"]


def test_each_conversation_may_have_a_user_of_its_own():
    mocks = Mocks({"get_user_id": lambda args, ctx: {"user_id": f"user-{ctx.conversation_id}"}})
    ids = [virtually(resolve_all(mocks.conversation(name), "get_user_id")) for name in ("conv-1-abc123", "conv-2-def4")]
    assert ids == [[{"user_id": "user-conv-1-abc123"}], [{"user_id": "user-conv-2-def4"}]]


def test_a_mock_may_act_by_the_turn():
    log = []

    def log_event(args, ctx):
        log.append(f"Turn {ctx.turn_index}: {args['event']}")
        return {"logged": True}

    async def talk():
        tools = Mocks({"log_event": log_event}).conversation()
        for tools.turn_index, event in enumerate(("start", "end")):
            await tools.resolve("log_event", {"event": event})

    virtually(talk())
    assert log == ["Turn 0: start", "Turn 1: end"]


def test_an_agent_that_retries_gets_through_a_sequence_that_fails_first():
    async def agent(tools):
        """Books, and retries while the server is busy."""
        while True:
            answer = await tools.resolve("create_booking", {"time": "09:00"})
            if answer["success"]:
                return answer["booking_id"]

    busy, booked = {"success": False, "error": "Server busy, please retry"}, {"success": True, "booking_id": "BK-001"}
    tools = Mocks({"create_booking": sequence([busy, booked])}).conversation()
    assert virtually(agent(tools)) == "BK-001"
    assert [call.tool for call in tools.calls] == ["create_booking", "create_booking"]


def test_a_sequence_of_orders_repeats_its_last():
    answers = [
        {"success": True, "order_id": "ORD-001"},
        {"success": False, "error": "duplicate"},
        {"success": True, "order_id": "ORD-002"},
    ]
    assert answers_to_many(sequence(answers), 5) == [*answers, answers[-1], answers[-1]]


def test_a_failure_may_depend_on_the_call():
    def get_weather(args, ctx):
        if ctx.call_index == 0:
            raise RuntimeError("API rate limit exceeded")
        return {"temperature": 72, "condition": "sunny"}

    limited, sunny = {"error": "API rate limit exceeded"}, {"temperature": 72, "condition": "sunny"}
    assert answers_to_many(get_weather, 3) == [limited, sunny, sunny]


def test_data_may_be_generated_from_the_arguments():
    def search(args):
        count = args.get("limit", 5)
        return {"results": [{"id": n, "title": f"{args['query']} #{n}"} for n in range(1, count + 1)]}

    five, two = answers_to(search, {"query": "tea"}, {"query": "tea", "limit": 2})
    assert len(five["results"]) == 5
    assert two["results"] == [{"id": 1, "title": "tea #1"}, {"id": 2, "title": "tea #2"}]


def test_a_sequence_and_a_function_go_together():
    steps = [lambda args, status=status: {"status": status, "id": args["id"]} for status in ("pending", "complete")]
    assert answers_to(sequence(steps), {"id": 1}, {"id": 2}, {"id": 3}) == [
        {"status": "pending", "id": 1},
        {"status": "complete", "id": 2},
        {"status": "complete", "id": 3},
    ]


def test_the_order_of_calls_is_the_trajectory():
    tools = Mocks(
        {
            "validate_cart": {"valid": True, "total": 49.99},
            "process_payment": {"success": True, "transaction_id": "TXN-001"},
            "send_confirmation": {"sent": True, "email_id": "EMAIL-001"},
        }
    ).conversation()
    virtually(resolve_all(tools, "validate_cart", "process_payment", "send_confirmation"))
    steps = [expected(tool) for tool in ("validate_cart", "process_payment", "send_confirmation")]
    assert match_trajectory(tools.calls, Trajectory("strict", steps))
    assert not match_trajectory(tools.calls, Trajectory("strict", steps[::-1]))


def test_edge_cases_are_chosen_by_the_arguments():
    stock = {"SKU-123": {"available": False, "stock": 0}, "SKU-456": {"available": True, "stock": 2, "is_low": True}}
    plenty = {"available": True, "stock": 100}
    check_inventory = lambda args: stock.get(args["product_id"], plenty)  # noqa: E731
    ids = ("SKU-123", "SKU-456", "SKU-789")
    assert answers_to(check_inventory, *({"product_id": each} for each in ids)) == [*stock.values(), plenty]


def test_rules_that_the_agent_should_know_may_stand_in_the_mock():
    def apply_discount(args):
        if args.get("code") == "SAVE10":
            return {"discount_percent": 10, "final_price": 44.99}
        if args.get("customer_type") == "VIP":
            return {"discount_percent": 20, "final_price": 39.99}
        return {"discount_percent": 0, "final_price": 49.99}

    answers = answers_to(apply_discount, {"code": "SAVE10"}, {"customer_type": "VIP"}, {})
    assert [answer["discount_percent"] for answer in answers] == [10, 20, 0]


def test_redundant_calls_are_counted_from_the_trajectory():
    tools = Mocks({"get_config": {"setting": "value"}, "other": 1}).conversation()
    virtually(resolve_all(tools, "get_config", "other", "get_config"))
    assert sum(call.tool == "get_config" for call in tools.calls) == 2


def test_a_process_of_several_steps_is_polled_to_its_end():
    progress = [{"process_id": "PROC-001", "progress": percent} for percent in (33, 66, 100)]
    mocks = {"start": {"process_id": "PROC-001"}, "check_progress": sequence(progress), "finalize": {"success": True}}

    async def agent(tools):
        process = await tools.resolve("start", {})
        while (await tools.resolve("check_progress", process))["progress"] < 100:
            pass
        return await tools.resolve("finalize", process)

    tools = Mocks(mocks).conversation()
    assert virtually(agent(tools)) == {"success": True}
    assert [call.tool for call in tools.calls] == ["start", *["check_progress"] * 3, "finalize"]


@pytest.mark.parametrize(
    ("session_id", "answer"),
    [("SESSION-123", {"file_id": "FILE-456", "uploaded": True}), ("SESSION-9", {"error": "Invalid session"})],
)
def test_a_mock_may_depend_on_what_another_answered(session_id, answer):
    def create_session(args, ctx):
        ctx.state["session_id"] = "SESSION-123"
        return {"session_id": "SESSION-123", "expires_at": "2026-03-30T12:00:00Z"}

    def upload_file(args, ctx):
        if args["session_id"] != ctx.state["session_id"]:
            raise PermissionError("Invalid session")
        return {"file_id": "FILE-456", "uploaded": True}

    tools = Mocks({"create_session": create_session, "upload_file": upload_file}).conversation()
    calls = ("create_session", {}), ("upload_file", {"session_id": session_id})
    assert virtually(resolve_all(tools, *calls))[1] == answer
