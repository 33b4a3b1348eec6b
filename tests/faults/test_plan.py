"""Plans: which line strikes, and plans as files and as text."""

import asyncio
import json
import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given

from offbook import MockProvider
from offbook.errors import InputError, ProviderError
from offbook.faults import (
    FAULT_TYPES,
    At,
    Chaos,
    ConnectionReset,
    EmptyResponse,
    FaultInjector,
    FaultPlan,
    HttpError,
    PlannedFault,
    Site,
    StreamTruncate,
    Timeout,
    ToolCallFault,
    ToolError,
    ToolLost,
    ToolSite,
    chaos,
    parse_fault,
)
from offbook.faults.catalog import PLANNED_FAULT_TYPES
from tests.fakes import Echo, user
from tests.faults.samples import planned_faults, plans

HERE = Site("", "answer", 1, 1, 1)
PLAN = """{
  "faults": [
    {"at": {"step_id": "answer", "attempt": 1}, "fault": {"type": "timeout", "after_ms": 5000}},
    {"at": {"call": 2, "chunk": 3}, "fault": {"type": "stream_truncate", "raise": "clean"}}
  ],
  "chaos": {"seed": 7, "rate": 0.2, "faults": [{"type": "connection_reset"}]}
}"""
DEEP = '{"faults": [{"at": {}, "fault": {"type": "tool_call_fault", "args": {"a": ' + "[" * 100_000


def refused(text, tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        FaultPlan.load(path)
    assert caught.value.source == str(path)
    return caught.value


def test_the_first_line_that_covers_a_site_fires():
    plan = FaultPlan([At(call=2).fail(Timeout()), At(call=1).fail(HttpError(500)), At().fail(ConnectionReset())])
    assert plan.fault_at(HERE) == HttpError(500)
    assert plan.fault_at(Site("", "answer", 3, 3, 1)) == ConnectionReset()


def test_chaos_fires_only_where_no_line_does():
    everywhere = chaos(seed=1, rate=1.0, faults=[ConnectionReset()])
    plan = FaultPlan([At(call=1).fail(HttpError(500))], chaos=everywhere.chaos)
    assert plan.fault_at(HERE) == HttpError(500)
    assert plan.fault_at(Site("", "answer", 2, 2, 1)) == ConnectionReset()


def test_lines_fire_at_models_or_tools_and_chaos_models_alone():
    lines = [At(tool="refund", call=2).fail(ToolError()), At(tool="refund").fail(ToolLost()), At().fail(Timeout())]
    plan = FaultPlan(lines, chaos=chaos(seed=1, rate=1.0, faults=[ConnectionReset()]).chaos)
    assert [plan.tool_fault_at(ToolSite("refund", call)) for call in (1, 2, 3)] == [ToolLost(), ToolError(), ToolLost()]
    assert plan.tool_fault_at(ToolSite("search", 1)) is None
    assert plan.fault_at(HERE) == Timeout()
    assert FaultPlan(lines[:2]).fault_at(HERE) is None


def test_a_plan_file_may_fire_at_tools(tmp_path):
    line = '{"at": {"tool": "refund", "call": 1}, "fault": {"type": "tool_error", "error": "down"}}'
    (tmp_path / "plan.json").write_text(f'{{"faults": [{line}]}}')
    plan = FaultPlan.load(tmp_path / "plan.json")
    assert list(plan) == [PlannedFault(At(tool="refund", call=1), ToolError("down"))]
    assert str(plan) == "tool=refund call=1: tool_error down"


def test_an_empty_plan_spares_all():
    assert FaultPlan().fault_at(HERE) is None
    assert FaultPlan().tool_fault_at(ToolSite("refund", 1)) is None
    assert str(FaultPlan()) == "no faults"
    assert list(FaultPlan()) == []


def test_a_plan_file_is_read(tmp_path):
    (tmp_path / "plan.json").write_text(PLAN)
    plan = FaultPlan.load(tmp_path / "plan.json")
    assert list(plan) == [
        PlannedFault(At(step_id="answer", attempt=1), Timeout(5000.0)),
        PlannedFault(At(call=2, chunk=3), StreamTruncate(3, "clean")),
    ]
    assert str(plan).splitlines() == [
        "step=answer attempt=1: timeout 5000",
        "call=2 chunk=3: stream_truncate raise=clean",
        "chaos seed=7 rate=0.2: connection_reset",
    ]


@given(plans)
def test_a_saved_plan_is_loaded_as_it_was(tmp_path_factory, plan):
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    plan.save(path)
    loaded = FaultPlan.load(path)
    assert loaded.faults == plan.faults
    assert loaded.chaos == plan.chaos
    assert str(loaded) == str(plan)
    assert repr(loaded) == repr(plan)


@given(planned_faults)
def test_a_plan_keeps_its_lines_and_prints_each_as_text_that_can_be_read(planned):
    plan = FaultPlan([planned, planned])
    assert list(plan) == [planned, planned]
    assert [parse_fault(line) for line in str(plan).split("\n")] == list(plan)


def test_a_saved_plan_is_fit_for_review(tmp_path):
    FaultPlan([At(call=2).fail(HttpError(500))]).save(tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text()
    assert json.loads(text)["faults"][0]["at"] == {"call": 2}
    assert text.startswith('{\n  "faults": [\n')
    assert text.endswith("}\n")


def test_a_plan_does_not_change_with_what_it_was_made_of():
    headers = {"a": "1"}
    lines = [At().fail(HttpError(500, headers))]
    plan = FaultPlan(lines)
    headers.clear()
    lines.clear()
    assert plan.fault_at(HERE) == HttpError(500, {"a": "1"})


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "", "the file is empty"),
        (PLAN[:40], "line 3, column 25", "the JSON ends in the middle"),
        ('{"faults": [{"at": {}, "fault": {"type": "tmeout"}}', "line 1, column 52", "the JSON ends in the middle"),
        ("{,}", "line 1, column 2", "JSON is malformed"),
        (b'{"faults": "\xff"}', "line 1, column 13", "not UTF-8"),
        (DEEP, "", "nested too deep"),
        ("[]", "", "expected an object, got a list"),
        ('{"faults": {}}', "faults", "expected a list, got an object"),
        ('{"faults": [5]}', "faults[0]", "expected an object, got an integer"),
        ('{"faults": [{}]}', "faults[0]", "the field at is missing"),
        ('{"faults": [{"at": {}}]}', "faults[0]", "the field fault is missing"),
        ('{"faults": [{"at": {"call": 0}, "fault": {"type": "timeout"}}]}', "faults[0].at.call", "of at least 1"),
        (
            '{"faults": [{"at": {"call": "1"}, "fault": {"type": "timeout"}}]}',
            "faults[0].at.call",
            "expected an integer",
        ),
        (
            '{"faults": [{"at": {"attempt": -1}, "fault": {"type": "timeout"}}]}',
            "faults[0].at.attempt",
            "of at least 1",
        ),
        (
            '{"faults": [{"at": {"chunk": -1}, "fault": {"type": "stream_stall"}}]}',
            "faults[0].at.chunk",
            "of at least 0",
        ),
        ('{"chaos": {"seed": 1, "rate": 2, "faults": []}}', "chaos.rate", "of at most 1"),
        ('{"chaos": {"seed": 1, "rate": 1, "faults": []}}', "chaos.faults", "length 1 or more"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_its_place_and_an_example(tmp_path, text, place, reason):
    error = refused(text, tmp_path)
    assert error.place == place
    assert reason in error.reason
    assert error.hint.startswith('a plan is like {"faults": [{"at": ')


def test_a_recording_in_the_place_of_a_plan_is_called_so(tmp_path):
    assert refused('{"_version": 2, "a": {"content": "x"}}', tmp_path).reason == "this is a recording, not a plan"


def test_the_example_in_the_hint_is_a_plan(tmp_path):
    example = refused("[]", tmp_path).hint.removeprefix("a plan is like ")
    (tmp_path / "plan.json").write_text(example)
    assert str(FaultPlan.load(tmp_path / "plan.json")) == "step=answer attempt=1: timeout 5000"


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ('{"fault": []}', "", "did you mean 'faults'? fields: chaos, faults"),
        ('{"faults": [{"at": {}, "falt": {}}]}', "faults[0]", "did you mean 'fault'? fields: at, fault"),
        (
            '{"faults": [{"at": {"step": "x"}, "fault": {"type": "timeout"}}]}',
            "faults[0].at",
            "did you mean 'step_id'? fields: attempt, call, chunk, from, since, step_id, tool, until, workflow",
        ),
        ('{"chaos": {"sed": 1}}', "chaos", "did you mean 'seed'? fields: faults, rate, seed"),
        (
            '{"chaos": {"seed": 1, "rate": 1, "faults": [{"type": "timeout", "after": 5}]}}',
            "chaos.faults[0]",
            'did you mean \'after_ms\'? fields: after_ms; for example {"type":"timeout","after_ms":5000}',
        ),
    ],
)
def test_an_unknown_field_is_refused_with_the_name_that_was_meant(tmp_path, text, place, hint):
    error = refused(text, tmp_path)
    assert "unknown field" in error.reason
    assert error.place == place
    assert error.hint == hint


def test_a_place_in_a_stream_is_refused_for_a_fault_that_does_not_fire_there(tmp_path):
    line = '{"at": {"chunk": 3}, "fault": {"type": "timeout"}}'
    error = refused(f'{{"faults": [{{"at": {{}}, "fault": {{"type": "timeout"}}}}, {line}]}}', tmp_path)
    assert error.place == "faults[1].at.chunk"
    assert error.reason == "timeout does not fire inside a stream"
    assert error.hint == "use stream_truncate, stream_stall, ws_close, ws_reorder or ws_repeat, or leave chunk out"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError) as caught:
        FaultPlan.load(tmp_path / "none.json")
    assert caught.value.source == str(tmp_path / "none.json")
    assert caught.value.reason == "No such file or directory"


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file or directory") as caught:
        FaultPlan().save(tmp_path / "none" / "plan.json")
    assert caught.value.source == str(tmp_path / "none" / "plan.json")


@pytest.mark.parametrize(
    ("line", "place", "reason"),
    [
        (At(call=0).fail(Timeout()), "faults[0].at.call", "expected an integer of at least 1"),
        (At().fail(Timeout(-5.0)), "faults[0].fault.after_ms", "expected a number of at least 0"),
        (At().fail(Timeout(float("inf"))), "faults[0].fault.after_ms", "expected a number, got null"),
        (At().fail(StreamTruncate(0, "Boom")), "faults[0].fault.raise", "'Boom' is no exception"),
        (At().fail(HttpError("500")), "faults[0].fault.status_code", "expected an integer, got '500'"),
        (PlannedFault(At(chunk=3), Timeout()), "faults[0].at.chunk", "timeout does not fire inside a stream"),
        (
            PlannedFault(At(), ToolLost()),
            "faults[0].at.tool",
            "tool_lost is a tool fault, and the site has no tool",
        ),
        (PlannedFault(At(tool="a"), Timeout()), "faults[0].at.tool", "timeout is a model fault, not a tool fault"),
        (PlannedFault(At(tool="a", step_id="b"), ToolLost()), "faults[0].at.step_id", "a tool call does not have this"),
        (At().fail(ToolCallFault("get", {"x": object()})), "", "cannot be written as JSON"),
        (At().fail(HttpError(500, body="\ud800")), "", "cannot be written as JSON"),
        (Timeout(), "faults[0]", "unknown field 'type'"),
    ],
)
def test_what_a_file_could_not_hold_is_refused_in_code_too(line, place, reason):
    with pytest.raises(InputError) as caught:
        FaultPlan([line])
    assert caught.value.place == place
    assert reason in caught.value.reason
    assert caught.value.hint


FAULTS = (ConnectionReset(), HttpError(500), Timeout(5.0))
SITES = [
    Site("", f"step{step}", call, 1, attempt) for step in range(50) for call in range(1, 51) for attempt in (1, 2, 3, 4)
]
FEW_SITES = SITES[:1000]


def drawn(lots, sites=SITES):
    return {site: fault for site in sites if (fault := lots.draw(site))}


@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_the_share_of_attempts_that_fail_is_about_the_rate(rate):
    fired = drawn(Chaos(7, rate, FAULTS))
    assert len(SITES) == 10_000
    assert len(fired) / len(SITES) == pytest.approx(rate, abs=0.015)
    for kind, count in Counter(fault.type for fault in fired.values()).items():
        assert count / len(fired) == pytest.approx(1 / 3, abs=0.1), kind


def test_a_rate_of_nothing_spares_all_and_a_rate_of_one_spares_none():
    assert drawn(Chaos(7, 0.0, FAULTS), FEW_SITES) == {}
    assert len(drawn(Chaos(7, 1.0, FAULTS), FEW_SITES)) == len(FEW_SITES)


def test_the_same_seed_draws_the_same_in_any_order():
    shuffled = random.Random(1).sample(FEW_SITES, len(FEW_SITES))
    assert drawn(Chaos(7, 0.2, FAULTS), FEW_SITES) == drawn(Chaos(7, 0.2, FAULTS), shuffled)


def test_another_seed_draws_others():
    assert drawn(Chaos(7, 0.2, FAULTS), FEW_SITES).keys() != drawn(Chaos(8, 0.2, FAULTS), FEW_SITES).keys()


def test_what_is_drawn_stays_the_same_from_release_to_release():
    fired = drawn(Chaos(7, 0.001, FAULTS))
    assert [(site.step_id, site.call, site.attempt, str(fault)) for site, fault in fired.items()] == [
        ("step0", 1, 2, "connection_reset"),
        ("step8", 36, 1, "http_error 500"),
        ("step16", 17, 3, "connection_reset"),
        ("step19", 47, 2, "http_error 500"),
        ("step44", 10, 3, "timeout 5"),
        ("step47", 23, 1, "http_error 500"),
    ]


@pytest.mark.parametrize("field", [{"workflow": "x"}, {"step_id": "b"}, {"call": 2}, {"attempt": 2}])
def test_every_part_of_a_site_counts(field):
    fields = {"workflow": "", "step_id": "a", "call": 1, "overall": 1, "attempt": 1}
    lots = [Chaos(seed, 0.5, FAULTS) for seed in range(100)]
    assert [lot.draw(Site(**fields)) for lot in lots] != [lot.draw(Site(**fields | field)) for lot in lots]


async def test_calls_at_once_get_faults_like_calls_in_turn():
    async def call(injector, step):
        try:
            await injector.complete(user("Hi"), "m", step_id=step)
        except ProviderError as error:
            return step, str(error)
        return step, ""

    steps = [f"step{number}" for number in range(40)]
    plan = chaos(seed=7, rate=0.4, faults=[ConnectionReset(), HttpError(500)])
    in_turn = FaultInjector(Echo(), plan)
    one_by_one = [await call(in_turn, step) for step in steps]
    at_once = FaultInjector(Echo(), plan)
    together = await asyncio.gather(*(call(at_once, step) for step in reversed(steps)))
    assert dict(one_by_one) == dict(together)
    assert sorted(map(str, in_turn.fired)) == sorted(map(str, at_once.fired))
    assert 0 < len(in_turn.fired) < len(steps)


def test_chaos_is_printed_and_survives_a_file(tmp_path):
    plan = chaos(seed=7, rate=0.125, faults=[HttpError(500), Timeout(5000.0), EmptyResponse()])
    assert str(plan) == "chaos seed=7 rate=0.125: http_error 500 | timeout 5000 | empty_response"
    plan.save(tmp_path / "plan.json")
    loaded = FaultPlan.load(tmp_path / "plan.json")
    assert loaded.chaos == plan.chaos
    assert drawn(loaded.chaos) == drawn(plan.chaos)


@pytest.mark.parametrize(
    ("wrong", "place", "reason"),
    [
        ({"rate": 1.5}, "chaos.rate", "expected a number of at most 1"),
        ({"rate": -0.1}, "chaos.rate", "expected a number of at least 0"),
        ({"rate": float("nan")}, "chaos.rate", "expected a number, got null"),
        ({"faults": []}, "chaos.faults", "expected a list of length 1 or more"),
        ({"seed": "seven"}, "chaos.seed", "expected an integer, got a string"),
        ({"faults": [Timeout(-5.0)]}, "chaos.faults[0].after_ms", "expected a number of at least 0"),
    ],
)
def test_chaos_that_makes_no_sense_is_refused(wrong, place, reason):
    with pytest.raises(InputError) as caught:
        chaos(**{"seed": 7, "rate": 0.5, "faults": FAULTS} | wrong)
    assert caught.value.place == place
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("at", "fault", "place", "reason"),
    [
        ({}, {"type": "http_error", "status_code": 999}, "status_code", "400 to 599, got 999"),
        ({}, {"type": "http_error", "status_code": 302}, "status_code", "400 to 599, got 302"),
        ({}, {"type": "http_error", "status_code": 200}, "status_code", "400 to 599, got 200"),
        ({}, {"type": "http_error", "status_code": 500, "headers": {"": "x"}}, "headers", "'' is not the name of a"),
        (
            {},
            {"type": "http_error", "status_code": 500, "headers": {"a": "x\ny"}},
            "headers.a",
            "cannot be in a header",
        ),
        ({}, {"type": "ws_close", "code": 1006}, "code", "no server sends 1006"),
        ({}, {"type": "ws_close", "reason": "x" * 124}, "reason", "at most 123 bytes"),
        ({}, {"type": "held_until", "tool": "refund"}, "call", "which call of 'refund' is not said"),
        ({}, {"type": "held_until", "tool": "a", "step": "b", "call": 1}, "step", "belongs to a tool or to a step"),
        ({"tool": "a"}, {"type": "injected_text", "instruction": " "}, "instruction", "the instruction is empty"),
        ({"tool": "a"}, {"type": "injected_text", "instruction": "ignroe"}, "instruction", "unknown value 'ignroe'"),
    ],
)
def test_a_value_that_means_nothing_is_refused_wherever_a_plan_has_it(tmp_path, at, fault, place, reason):
    error = refused(json.dumps({"faults": [{"at": at, "fault": fault}]}), tmp_path)
    assert error.place == f"faults[0].fault.{place}"
    assert reason in error.reason
    assert f'for example {{"type":"{fault["type"]}"' in error.hint
    declared = msgspec.convert(fault, PLANNED_FAULT_TYPES[fault["type"]])
    with pytest.raises(InputError) as caught:
        FaultPlan([At(**at).fail(declared)])
    assert caught.value.place == error.place
    assert caught.value.reason == error.reason
    with pytest.raises(InputError) as caught:
        parse_fault(str(At(**at).fail(declared)))
    assert caught.value.place == place
    assert caught.value.reason == error.reason
    if declared.type in FAULT_TYPES:
        with pytest.raises(InputError) as caught:
            chaos(seed=1, rate=1.0, faults=[declared])
        assert caught.value.place == f"chaos.faults[0].{place}"
        assert caught.value.reason == error.reason


def test_a_page_with_status_200_and_a_recorded_status_are_no_slips():
    assert parse_fault('call=1: http_error 200 body="<html>"').fault == HttpError(200, body="<html>")
    assert MockProvider(responses={"a": {"fault": {"type": "http_error", "status_code": 302}}}).name == "mock"


@pytest.mark.parametrize("kind", PLANNED_FAULT_TYPES.values(), ids=PLANNED_FAULT_TYPES.keys())
def test_the_examples_in_hints_are_faults_of_a_plan(kind):
    for field in ("", *kind.__struct_encode_fields__):
        at = At(tool="refund") if kind.is_for_tools else At(call=1)
        line = parse_fault(f"{at}: {kind.example_text(field)}")
        assert line.fault == msgspec.convert({"type": line.fault.type} | kind.example(field), kind)
        assert field in {"", *kind.example(field)}
        assert list(FaultPlan([line])) == [line]
