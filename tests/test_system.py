"""What Windows lacks is not needed: everything is imported, recorded, replayed and served without it.

It is a process that has been made like one of Windows, and not Windows: no test has run there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from offbook import system

HIDE = "from tests import windows_like; windows_like.hide()\n"
IMPORT_ALL = """
import importlib
import offbook, offbook.view.server, offbook.pytest_plugin.plugin
from offbook.lazy_names import PUBLIC_MODULES, public_names
for module in sorted(PUBLIC_MODULES):
    for name in public_names(module):
        getattr(importlib.import_module(module), name)
"""
USE_ALL = """
import asyncio, json, pathlib
import httpx2
from offbook import MockProvider, RecordingProvider, serving
from offbook.scenarios import HandlerTarget, Participants, ScenarioRunner, Trajectory, scenario
from offbook.workflow import WorkflowEngine

HI = [{"role": "user", "content": "Hi"}]

async def work():
    model = MockProvider(responses={"any": {"content": "Hello!"}})
    for location in ("run.json", "sqlite:///run.db"):
        async with RecordingProvider(model, location) as recorder:
            await recorder.complete(HI, "m", step_id="greet")
            await recorder.complete(HI, "m", step_id="greet")
        assert (await MockProvider(location, strict=True).complete(HI, "m", step_id="greet")).content == "Mock response"

asyncio.run(work())
pathlib.Path("flow.yaml").write_text(
    "name: f\\nconfig: {provider: mock, model: m, responses_file: run.json}\\n"
    "steps: [{id: greet, type: llm_call, prompt: Hi, output: said}]\\n"
)
assert WorkflowEngine("flow.yaml").run_sync().state == {"said": "Mock response"}

async def agent(messages, ctx):
    return f"Booked: {await ctx.resolve_tool('book', {'at': messages[-1]['content']})}"

booking = scenario("books", turns=["9"], mocks={"book": {"id": 7}}, assertions=Trajectory("strict", ["book"]))
runner = ScenarioRunner(Participants({"booking": HandlerTarget("booking", agent)}))
assert asyncio.run(runner.run([booking])).passed
with serving("run.json", strict=False) as server:
    answer = httpx2.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": HI})
    assert answer.status_code == 200, answer.text
"""


def run_like_windows(program, folder):
    """Run a program in a process that lacks what Windows lacks. Libraries of others are loaded before."""
    before = (
        "import asyncio, multiprocessing, ssl, subprocess, tempfile\nimport httpx2, pytest, _pytest.pytester, typer\n"
    )
    return subprocess.run(
        [sys.executable, "-c", before + HIDE + program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("program", [IMPORT_ALL, USE_ALL], ids=["imported", "used"])
def test_nothing_needs_what_windows_lacks(program, tmp_path):
    done = run_like_windows(program, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_lock_of_msvcrt_excludes_and_is_waited_for(tmp_path):
    program = """
import os
from offbook.system import lock_file, open_folder_lock, unlock_file

first, second = (os.open("file", os.O_RDWR | os.O_CREAT) for _ in range(2))
lock_file(first)
try:
    lock_file(second, wait=False)
except BlockingIOError:
    print("locked")
unlock_file(first)
lock_file(second, shared=True)
print("free", os.lseek(second, 0, os.SEEK_CUR), os.path.getsize("file"))
os.mkdir("folder")
from pathlib import Path
lock_file(open_folder_lock(Path("folder")), wait=False)
print(os.listdir("folder"))
"""
    done = run_like_windows(program, tmp_path)
    assert done.stdout == "locked\nfree 0 0\n['.lock']\n", done.stderr


def test_a_shared_lock_is_shared_where_the_system_can(tmp_path):
    first, second = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    try:
        system.lock_file(first, shared=True)
        system.lock_file(second, shared=True, wait=False)
        with pytest.raises(BlockingIOError):
            system.lock_file(second, wait=False)
    finally:
        os.close(first)
        os.close(second)
