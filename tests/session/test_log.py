"""The log of a run: what several that answer have left together, and which faults fired at any of them."""

from offbook import MockProvider
from offbook.faults import FaultLog, FaultPlan, parse_fault
from offbook.recording.match.cursor import UnusedEntry
from offbook.session.log import Log
from offbook.session.replayed_tools import replay_tools
from tests.fakes import user

DOCUMENT = {
    "_version": 2,
    "a": {"content": "1"},
    "b": [{"content": "2"}, {"content": "3"}],
    "_tools": {"find": [{"result": 1}], "github.open": [{"result": 2}]},
}


async def served(*steps):
    mock = MockProvider(responses=DOCUMENT)
    for step in steps:
        await mock.complete(user("Hi"), model="m", step_id=step)
    return mock.log


async def test_an_exchange_is_used_if_one_of_a_sum_has_served_it():
    logs = [await served("b"), await served("a")]
    assert Log.of(logs).unused() == [UnusedEntry("b", 1)]


async def test_recordings_of_other_names_are_left_apart():
    logs = [(await served("a", "b", "b")).placed("x.json"), (await served("a", "b")).placed("y.json")]
    assert Log.of(logs).unused() == [UnusedEntry("b", 1, "y.json")]


async def test_tools_have_keys_of_their_own_among_models():
    def find():
        """Find."""

    tools = replay_tools([find], DOCUMENT)
    tools["find"].callable()
    assert tools.unused() == [UnusedEntry("github.open", 0)]
    both = Log.of([await served("a", "b", "b"), tools.log.placed(of_tools=True)])
    assert both.unused() == [UnusedEntry("_tools.github.open", 0)]


def test_a_line_has_fired_if_it_has_at_one_of_a_sum():
    first, second = parse_fault("call=1: timeout"), parse_fault("call=2: timeout")
    fault_log = FaultLog()
    fault_log.note(first, first)
    log = Log.of([Log(faults=[FaultLog()], plan=FaultPlan([first, second])), Log(faults=[fault_log])])
    assert log.fired == [first]
    assert log.unfired() == [second]


def test_an_empty_log_has_nothing():
    assert (Log().unused(), Log().overused(), Log().fired, Log().unfired()) == ([], [], [], [])
