"""Files of scenarios that cannot be found or imported."""

import importlib
import sys

import pytest

from offbook.config import load_config
from offbook.config.discovery import collect_scenarios, import_from, scenario_files
from offbook.errors import InputError, WorkflowError

IMPORTS = "from offbook import scenario\nfrom offbook.scenarios import Trajectory, expected, turn\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('scenario("s", turns=["hi"], maxTurns=3)', "did you mean 'max_turns'?"),
        ('scenario("s", turns=["hi"], unmockedTools="passthrough")', "did you mean 'unmocked'?"),
        ('expected("search", argMatchMode="ignore")', "arguments: args, at_least, at_most, exactly, match, tool"),
        (
            'scenario("s", {"turns": ["hi"]})',
            'pass everything but the name by name: scenario("books a room", turns=["09:00"])',
        ),
        ("print(1, maxTurns=3)", ""),
    ],
)
def test_wrong_arguments_have_a_hint(tmp_path, line, hint):
    file = tmp_path / "sim_s.py"
    file.write_text(IMPORTS + line)
    with pytest.raises(InputError) as refused:
        collect_scenarios([file])
    assert refused.value.source == f"{file}:3"
    assert refused.value.hint == hint


@pytest.mark.parametrize("line", ["turn(3)", 'Trajectory("strct")', 'expected("")'])
def test_a_wrong_part_of_a_scenario_is_reported_with_its_line(tmp_path, line):
    file = tmp_path / "sim_s.py"
    file.write_text(IMPORTS + line)
    with pytest.raises(InputError) as refused:
        collect_scenarios([file])
    assert refused.value.source == f"{file}:3"


def test_all_problems_of_a_workflow_that_a_file_builds_are_reported(tmp_path):
    file = tmp_path / "sim_s.py"
    definition = {"name": "w", "config": {"modle": "m"}, "steps": [{"id": "a", "type": "llm_call", "promt": "x"}]}
    file.write_text(f"from offbook.workflow.file.load import read_definition\nread_definition({definition!r})\n")
    with pytest.raises(WorkflowError) as refused:
        collect_scenarios([file])
    assert len(refused.value.problems) > 1


def test_a_pattern_of_scenarios_that_is_none_is_bad_input(tmp_path):
    path = tmp_path / "offbook.toml"
    path.write_text('[run]\nscenarios = ["/tmp/*.py"]\n')
    with pytest.raises(InputError, match=r"^run\.scenarios: "):
        scenario_files(load_config(path))


def test_modules_of_a_project_are_read_again_also_in_packages_without_a_file_of_their_own(tmp_path):
    inner = tmp_path / "agents_of_mine" / "inner"
    inner.mkdir(parents=True)
    for answer in ("first", "then"):
        (inner / "agent.py").write_text(f"answer = {answer!r}")
        with import_from([tmp_path]):
            agent = importlib.import_module("agents_of_mine.inner.agent")
            assert agent.answer == answer
        assert not [name for name in sys.modules if name.startswith("agents_of_mine")]
