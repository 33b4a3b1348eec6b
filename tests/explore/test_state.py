"""The state that a run has left is compared with that of the clean run."""

import sqlite3

import pytest

from offbook import explore_function, tool
from offbook.errors import InputError, ToolFaultError
from offbook.explore.explorer import with_noise
from offbook.explore.judge import assess
from offbook.explore.state import state_of_path, state_value
from offbook.tools.effects import Effect
from tests.explore.runs import DECLARED, clean_run, fired_run, write_recording

PAID, MORE = (Effect(tool="set_balance", arguments={"to": amount}) for amount in (150, 180))
OPEN = {"balance": 180}


@pytest.mark.parametrize(
    ("title", "fields"),
    [
        ("recovered", {"state": OPEN, "effects": (PAID, MORE)}),
        ("recovered", {"state": OPEN, "effects": (MORE, MORE)}),
        ("recovered", {"state": OPEN, "effects": ()}),
        ("wrong effect", {"state": {"balance": 150}, "effects": (MORE,)}),
        ("different result", {"state": {"balance": 150}, "effects": (MORE,), "result": "Nothing was paid in."}),
        ("failed partway", {"state": {"balance": 150}, "effects": (MORE,), "error": DECLARED}),
        ("left behind", {"state": {"balance": 130}, "effects": (PAID,), "error": DECLARED}),
        ("wrong effect", {"effects": (PAID, MORE)}),
    ],
)
def test_an_equal_end_state_overrules_other_calls_and_another_one_is_a_finding(title, fields):
    assert assess(fired_run(**fields), clean_run(state=OPEN, effects=(MORE,))).title == title


def test_the_evidence_shows_how_the_state_differs_or_that_other_effects_ran():
    clean = clean_run(state=OPEN, effects=(MORE,))
    first, text = assess(fired_run(state={"balance": 150}, effects=(MORE,)), clean).evidence
    assert first == "the end state is another, and the result is the same"
    assert text.splitlines()[0] == "the state, without the fault (-) and with it (+):"
    assert '  +  "balance": 150' in text.splitlines()
    _, text = assess(fired_run(state=OPEN, effects=(PAID, MORE)), clean).evidence
    assert text == "the end state is the same, although other effects ran: set_balance(to=150)"


def test_ids_and_times_of_a_state_are_masked_and_counts_are_not():
    ids = [{"id": f"0f8fad5b-d9cb-469f-a165-7086772895{end}"} for end in (10, 11, 12)]
    clean = with_noise(clean_run(state=ids[0]), clean_run(state=ids[1]))
    assert assess(fired_run(state=ids[2]), clean).title == "recovered"
    counted = with_noise(clean_run(state={"paid": 1}), clean_run(state={"paid": 2}))
    assert assess(fired_run(state={"paid": 3}), counted).title == "recovered"
    (text,) = counted.noise.describe()
    assert text.startswith("two runs without a fault leave different states, which are not compared")


def test_bytes_files_folders_and_databases_are_compared_by_what_they_mean(tmp_path):
    assert state_value(b'{"b": 1, "a": 2}') == {"a": 2, "b": 1}
    assert state_value("text") == "text"
    assert state_value(b"\xff").startswith("1 bytes, sha256 ")
    (tmp_path / "box" / "in").mkdir(parents=True)
    (tmp_path / "box" / "in" / "a.txt").write_text("mail")
    assert state_of_path(tmp_path / "box") == {"in/a.txt": "mail"}
    assert state_of_path(tmp_path / "none") is None
    dumps = []
    for name, page_size in (("one.db", 4096), ("two.db", 8192)):
        with sqlite3.connect(tmp_path / name) as database:
            database.execute(f"PRAGMA page_size = {page_size}")
            database.executescript("CREATE TABLE paid (amount); INSERT INTO paid VALUES (42);")
        database.close()
        dumps.append(state_of_path(tmp_path / name))
    assert dumps[0] == dumps[1]
    assert "42" in dumps[0]


BALANCE = {"now": 0}


@tool(side_effect=True)
def deposit(amount: int) -> str:
    """Add to the balance."""
    BALANCE["now"] += amount
    return "ok"


@tool(side_effect=True)
def set_balance(to: int) -> str:
    """Set the balance."""
    BALANCE["now"] = to
    return "ok"


async def pays_in(harness):
    await harness.gateway.complete([{"role": "user", "content": "Pay in 30"}], "m", step_id="ask")
    tools = harness.tools(deposit, set_balance)
    try:
        tools["deposit"].callable(amount=30)
    except ToolFaultError:
        tools["set_balance"].callable(to=30)
    return "done"


def explored(tmp_path, **options):
    recording = write_recording(tmp_path / "run.json", {"ask": [{"content": "Yes."}]})
    faults = explore_function(pays_in, recording, faults="tool_lost,tool_error", workers=1, **options)
    return {each.title for each in faults.results}


def test_a_function_that_is_explored_may_say_what_state_is(tmp_path):
    assert explored(tmp_path) == {"wrong effect"}
    assert explored(tmp_path, state=lambda: BALANCE["now"]) == {"recovered"}
    assert explored(tmp_path, state=lambda run: [run.result, BALANCE]) == {"recovered"}
    with pytest.raises(InputError, match="expected a synchronous function"):
        explored(tmp_path, state=3)


def fails():
    raise KeyError("now")


def test_a_state_that_cannot_be_read_is_a_check_that_fails(tmp_path):
    with pytest.raises(InputError, match="the run fails without any fault: state: KeyError: 'now'"):
        explored(tmp_path, state=fails)
