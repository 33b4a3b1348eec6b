"""The plugin as pytest loads it: what it costs those who do not use it, and how it works with pytest-xdist."""

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from offbook.pytest_plugin import plugin
from tests.pytest_plugin.conftest import printed_output
from tests.pytest_plugin.test_explored_test import AGENT, RECORDING, SOUND

HEAVY = {"msgspec", "orjson", "pydantic", "httpx2", "yaml", "rich", "typer", "offbook.clock", "offbook.pipeline"}


def test_the_plugin_is_found_by_pytest_without_being_named():
    (found,) = (each for each in entry_points(group="pytest11") if each.name == "offbook")
    assert found.load() is plugin


def test_loading_the_plugin_loads_nothing_heavy():
    program = (
        "import sys, pytest; before = set(sys.modules); import offbook.pytest_plugin.plugin;"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "offbook.pytest_plugin.summary" in loaded
    assert not loaded & HEAVY


def test_tests_that_do_not_use_it_see_nothing_of_it(project):
    project.test("def test_it():\n    pass\n")
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "offbook" not in printed_output(result)


SHARED = """
@pytest.mark.offbook(recording="shared.json")
@pytest.mark.parametrize("number", range(4))
def test_greets(offbook, number):
    offbook.live(Echo)
    assert greet(offbook, str(number), step=f"greet-{number}") == f"Hello {number}"

@pytest.mark.offbook(recordin=1)
def test_wrong(offbook):
    pass
"""


@pytest.fixture
def parallel(project):
    """A project with tests of all kinds, whose recording was made by two workers."""
    project.test(SHARED)
    project.write("shop_agent.py", "def handle(messages, ctx):\n    return 'Hello'\n")
    project.write("offbook.toml", '[agent]\nhandler = "shop_agent:handle"\n')
    declared = "\n".join(f'scenario("says hello {number}", turns=["hi"])' for number in range(2))
    project.write("sim_hello.py", f"from offbook.scenarios import scenario\n{declared}\n")
    project.write("run.json", json.dumps(RECORDING))
    project.write("agent.py", AGENT)
    result = project.run_apart("-n", "2", "--offbook-record=all", "test_it.py", "sim_hello.py")
    result.assert_outcomes(passed=6, errors=1)
    assert "0 calls served from recordings, 4 recorded live, 0 missed" in printed_output(result)
    return project


def test_workers_record_and_replay_as_one_process_does(parallel):
    recorded = json.loads((parallel.folder / "shared.json").read_text())
    assert {key for key in recorded if not key.startswith("_")} == {f"greet-{number}" for number in range(4)}
    parallel.test(SOUND.replace("tools(refund))", "tools(refund), tries=2)"), path="test_explored.py")
    result = parallel.run_apart("-n", "2", "--offbook-report-unused")
    text = printed_output(result)
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == 4 + 2 + 5
    assert outcomes["errors"] == 1
    assert outcomes["failed"] + outcomes.get("grouped", 0) == 2  # one cause fails once in each worker that meets it
    assert "calls served from recordings, 0 recorded live, 0 missed" in text
    assert text.count("not used in shared.json") == 4
    assert "repeated effect: refund(order=42) ran 2 times instead of once" in text
    assert "unknown argument 'recordin'" in text
    assert "INTERNALERROR" not in text


RULES = "[redaction]\npatterns = ['Ada Lov[a-z]+']\n"


def test_the_rules_of_redaction_of_the_config_hold_for_what_is_recorded(project):
    project.write("offbook.toml", RULES)
    project.test("def test_it(offbook):\n    offbook.live(Echo)\n    assert greet(offbook, 'Ada Lovelace')")
    project.record()
    (path,) = project.recordings()
    assert "Lovelace" not in (project.folder / "recordings" / path).read_text()
    project.run().assert_outcomes(passed=1)


def test_wrong_rules_of_redaction_end_the_run_before_any_test(project):
    project.write("offbook.toml", RULES.replace("patterns", "pattern"))
    project.test("def test_it(): pass")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*offbook.toml*unknown field 'pattern'*"])


def ids(result):
    """The node ids that a run with `--collect-only` has printed."""
    return [line for line in printed_output(result).splitlines() if "::" in line]


def test_shards_have_every_item_once_also_of_one_explored_test(project):
    project.write("run.json", json.dumps(RECORDING))
    project.write("agent.py", AGENT)
    project.test(SOUND)
    project.test("@pytest.mark.parametrize('number', range(9))\ndef test_it(number): pass", path="test_many.py")
    everything = ids(project.run("--collect-only"))
    shards = [ids(project.run("--collect-only", f"--offbook-shard={number}/3")) for number in (1, 2, 3)]
    assert sorted(item for shard in shards for item in shard) == sorted(everything)
    assert sum(any("test_agent[" in item for item in shard) for shard in shards) > 1
    assert ids(project.run("--collect-only", "--offbook-shard", "1/1")) == everything
    passed = [project.run(f"--offbook-shard={number}/3").parseoutcomes().get("passed", 0) for number in (1, 2, 3)]
    assert passed == [len(shard) for shard in shards]


def test_the_header_names_the_shard_and_an_empty_one_passes(project):
    project.test("def test_it(): pass")
    shards = [project.run("-v", f"--offbook-shard={number}/2") for number in (1, 2)]
    for number, shard in enumerate(shards, 1):
        assert f"offbook: shard {number}/2" in printed_output(shard)
    assert [shard.ret for shard in shards] == [0, 0]
    assert sorted(str(shard.parseoutcomes()) for shard in shards) == ["{'deselected': 1}", "{'passed': 1}"]
    assert "offbook: shard" not in printed_output(project.run("-v"))


def test_workers_share_a_shard_and_leave_the_other_one(project):
    project.test("@pytest.mark.parametrize('number', range(6))\ndef test_it(number): pass")
    shared = project.run_apart("-n", "2", "--offbook-shard=1/2").parseoutcomes()
    other = project.run("--offbook-shard=2/2").parseoutcomes()
    assert shared["passed"] + other["passed"] == 6


@pytest.mark.parametrize("shard", ["0/4", "5/4", "a/b"])
def test_a_shard_that_is_none_ends_the_run_before_any_test(project, shard):
    project.test("def test_it(): pass")
    result = project.run(f"--offbook-shard={shard}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--offbook-shard*", "*hint: *"])
