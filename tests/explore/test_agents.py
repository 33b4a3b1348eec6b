"""The proof that explore finds defects: agents with one each, and sound twins of them that nothing is found in."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path

import orjson
import pytest
from msgspec import Struct

from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.runner import Explorer
from offbook.explore.verdict import Verdict
from offbook.subjects.function import FunctionSubject
from offbook.subjects.program import ProgramSubject
from tests.explore.agents import desk
from tests.wire.node.driver import is_required

FOLDER = Path(desk.__file__).parent
GAVE_UP = 3
TEXT = {"content": "It is on its way, and will be there tomorrow."}
STREAM = TEXT | {"chunks": [[0.0, "It is on its way, "], [0.0, "and will be "], [0.0, "there tomorrow."]]}
REFUND = {"content": "", "tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order_id": 42}}]}


class Planted(Struct, frozen=True):
    """A defect: the verdict that it is to get, and a place where it shows."""

    name: str
    verdict: Verdict
    at: str


class PlantedProgram(Planted, frozen=True, kw_only=True):
    """One in a program: what its model answers, and the faults to try."""

    answers: list[dict[str, object]]
    faults: str
    deadline_s: float = 60.0

    @property
    def command(self) -> list[str]:
        path = next(FOLDER.glob(f"{self.name}.*"))
        return ["node" if path.suffix == ".mjs" else sys.executable, str(path)]


IN_PROCESS = [
    Planted("no_retry", "crashed", "step=desk call=1 attempt=1: connection_reset"),
    Planted("swallowed_timeout", "wrong", "tool=refund call=1: tool_timeout 60000"),
    Planted("infinite_retry", "hung", "step=desk call=2: http_error 500"),
    Planted("ignored_retry_after", "wrong", "step=desk call=3 attempt=1: http_error 429 headers.retry-after=7"),
    Planted("lost_transcript", "wrong", "step=desk call=2 attempt=1: connection_reset"),
    Planted("double_side_effect", "repeated side effect", "tool=refund call=1: tool_lost"),
    Planted("wrong_fallback", "wrong", "step=desk call=2: timeout 60000"),
    Planted("ignored_tool_result", "undetected", "tool=refund call=1: tool_garbled"),
]
PROGRAMS = [
    PlantedProgram(
        "retry_without_idempotency",
        "repeated side effect",
        "call=2 attempt=1: http_error 401",
        answers=[REFUND, TEXT],
        faults="http_error 401",
    ),
    PlantedProgram(
        "truncated_stream",
        "undetected",
        "call=1 attempt=1 chunk=3: stream_truncate raise=clean",
        answers=[STREAM],
        faults="stream_truncate clean",
    ),
    PlantedProgram(
        "no_deadline",
        "hung",
        "call=1 attempt=1: timeout 60000",
        answers=[TEXT],
        faults="timeout",
        deadline_s=5.0,
    ),
    PlantedProgram(
        "empty_answer",
        "undetected",
        "call=1 attempt=1: empty_response",
        answers=[TEXT],
        faults="empty_response,content_filter",
    ),
    PlantedProgram(
        "unvalidated_arguments",
        "crashed",
        "call=1 attempt=1: invalid_tool_args",
        answers=[REFUND, TEXT],
        faults="invalid_tool_args,unknown_tool",
    ),
]


def named(planted):
    return planted.name


def explored(agent, planted, tmp_path):
    """The exploration of an agent in this process, with all faults."""
    module = import_module(f"tests.explore.agents.{planted.name}")
    getattr(module, "record", desk.record)(tmp_path / "run.json")
    function = getattr(module, agent, desk.sound)
    subject = FunctionSubject(function, tmp_path / "run.json", declared=[desk.GaveUpError])
    return Explorer(subject, ExploreOptions(variants=select_variants("all"))).explore()


def explored_program(agent, planted, tmp_path):
    """The exploration of a program, with the case of its defect alone: every run starts a process."""
    path = tmp_path / "run.json"
    path.write_bytes(orjson.dumps({"_version": 2, "any": planted.answers}))
    options = ExploreOptions(variants=select_variants(planted.faults, ProgramSubject.variants))
    with ProgramSubject(
        [*planted.command, agent],
        replay=path,
        deadline_s=planted.deadline_s,
        side_effects=["refund"],
        declared_exits=[GAVE_UP],
    ) as subject:
        explorer = Explorer(subject, options)
        return explorer.explore([case for case in explorer.cases if str(case) == planted.at])


def assert_found(exploration, planted):
    assert {each.verdict for each in exploration.findings} == {planted.verdict}
    assert planted.at in [str(each.case) for each in exploration.findings]


@pytest.mark.parametrize("planted", IN_PROCESS, ids=named)
def test_the_defect_of_an_agent_is_found(planted, tmp_path):
    assert_found(explored("defect", planted, tmp_path), planted)


HAVE_SOUND_TWINS = ("no_retry", "ignored_retry_after", "double_side_effect", "wrong_fallback")
"""The agents whose sound twins differ: the others have that of the first."""


@pytest.mark.parametrize("planted", [each for each in IN_PROCESS if each.name in HAVE_SOUND_TWINS], ids=named)
def test_nothing_is_found_in_a_sound_agent(planted, tmp_path):
    exploration = explored("sound", planted, tmp_path)
    assert exploration.findings == []
    assert exploration.counts["recovered"] > 0


@pytest.fixture
def program(request):
    """A program that can run here."""
    if request.param.command[0] == "node" and shutil.which("node") is None:
        (pytest.fail if is_required() else pytest.skip)("node is not installed")
    return request.param


@pytest.mark.parametrize("program", PROGRAMS, ids=named, indirect=True)
def test_the_defect_of_a_program_is_found(program, tmp_path):
    assert_found(explored_program("defect", program, tmp_path), program)


@pytest.mark.parametrize("program", PROGRAMS, ids=named, indirect=True)
def test_nothing_is_found_in_a_sound_program(program, tmp_path):
    exploration = explored_program("sound", program, tmp_path)
    assert exploration.findings == []
    assert [bool(each.run.fired) for each in exploration.results] == [True]
