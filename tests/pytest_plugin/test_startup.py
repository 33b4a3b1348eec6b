"""What the plugin costs those who do not use it."""

import subprocess
import sys

from tests.pytest_plugin.conftest import told

HEAVY = {"msgspec", "orjson", "pydantic", "httpx2", "yaml", "rich", "typer", "offbook.clock", "offbook.session"}


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
