"""What the plugin costs those who do not use it."""

import json
import subprocess
import sys

import pytest

from tests.pytest_plugin.conftest import told

HEAVY = {"msgspec", "orjson", "pydantic", "httpx2", "yaml", "rich", "typer", "offbook.clock", "offbook.pipeline"}


def test_the_plugin_is_found_by_pytest_without_being_named(project):
    project.test("def test_it(offbook):\n    assert offbook.run(asyncio.sleep(5, 'woken')) == 'woken'\n")
    project.run_apart("-p", "no:xdist", plugins=None).assert_outcomes(passed=1)


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
    assert "offbook" not in told(result)


SHARED = """
@pytest.mark.offbook(recording="shared.json")
@pytest.mark.parametrize("number", range(8))
def test_greets(offbook, number):
    offbook.live(Echo)
    assert greet(offbook, str(number), step=f"greet-{number}") == f"Hello {number}"
"""


@pytest.fixture
def shared(project):
    project.test(SHARED)
    result = project.run_apart("-n", "2", "--offbook-record=all")
    result.assert_outcomes(passed=8)
    assert "0 calls served from recordings, 8 recorded live, 0 missed" in told(result)
    return project


def test_workers_record_into_one_file_and_nothing_is_lost(shared):
    recorded = json.loads((shared.folder / "shared.json").read_text())
    assert {key for key in recorded if not key.startswith("_")} == {f"greet-{number}" for number in range(8)}


def test_what_workers_did_is_told_together(shared):
    result = shared.run_apart("-n", "2", "--offbook-report-unused")
    result.assert_outcomes(passed=8)
    assert "8 calls served from recordings, 0 recorded live, 0 missed" in told(result)
    assert told(result).count("not used in shared.json") == 8


def test_a_wrong_marker_fails_its_test_in_a_worker_and_no_other(project):
    project.test(
        "@pytest.mark.offbook(recordin=1)\ndef test_wrong(offbook):\n    pass\n\ndef test_right():\n    pass\n"
    )
    result = project.run_apart("-n", "2")
    result.assert_outcomes(passed=1, errors=1)
    assert "unknown argument 'recordin'" in told(result)
    assert "INTERNALERROR" not in told(result)


def test_scenarios_run_in_workers(project):
    project.write("shop_agent.py", "def handle(messages, ctx):\n    return 'Hello'\n")
    project.write("offbook.toml", '[agent]\nhandler = "shop_agent:handle"\n')
    declared = "\n".join(f'scenario("says hello {number}", turns=["hi"])' for number in range(4))
    project.write("sim_hello.py", f"from offbook.scenarios import scenario\n{declared}\n")
    project.run_apart("-n", "2").assert_outcomes(passed=4)
