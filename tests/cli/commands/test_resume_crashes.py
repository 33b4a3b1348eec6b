"""offbook resume after a kill at every place where a run changes a file: nothing that is noted as ended runs again.

`make test` tries a sample of the places, `make zoo` all of them.
"""

import os
import signal
import sys

import orjson
import pytest

from offbook.cli.main import main
from offbook.messages import ToolCall
from offbook.recording.format.document import each_exchange
from offbook.recording.stores.locate import open_store
from tests.every_case import sampled
from tests.servers.models import ChatModel, said

FLOW = """\
name: shop
config: {provider: openai, model: m}
tools: {charge: "till:charge", done: "till:done"}
steps:
  - {id: before, type: tool, tool: charge, args: {amount: 7}, output: before}
  - {id: sell, type: agent, depends_on: [before], tools: [charge], terminal_tool: done, prompt: "sell", output: sold}
"""
TILL = """\
import os


def _note(line):
    file = os.open("effects.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"\\n{line}\\n".encode())
    os.close(file)


def charge(amount: int) -> str:
    '''Take money.'''
    _note(f"charge {amount}")
    return f"charged {amount}"


def done(text: str) -> str:
    '''Be done.'''
    return text
"""
EFFECTS = ["charge 7", "charge 8"]
KILLED = 137
CHANGES = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "shutil.rmtree")


def salesman(prompt):
    """Charges 8, then is done."""
    calls = {"sell": ToolCall("charge", {"amount": 8}, "1"), "charged 8": ToolCall("done", {"text": "sold"}, "2")}
    return said(tool_calls=(calls[prompt],), finish_reason="tool_calls")


class CrashPoints:
    """Ends this process before the change number `at` of a file, or in the middle of a write: as a kill would.

    Changes are writes, and what creates, moves, cuts or removes a file. `writes` are the numbers of the former.
    """

    def __init__(self, folder, at, *, tears):
        self._folder, self._at, self._tears = str(folder), at, tears
        self.passed, self.writes, self._write = 0, [], os.write
        os.write = self.write
        sys.addaudithook(self.audit)

    def write(self, file, data):
        self.writes.append(self.passed + 1)
        if self._tears and self.passed + 1 == self._at:
            self._write(file, bytes(data)[: len(data) // 2])
        self._pass()
        return self._write(file, data)

    def audit(self, event, arguments):
        is_change = event in CHANGES or (event == "open" and arguments[2] & os.O_CREAT)
        if is_change and os.path.abspath(str(arguments[0])).startswith(self._folder):  # noqa: PTH100 - as the system sees it
            self._pass()

    def _pass(self):
        self.passed += 1
        if self.passed == self._at:
            os._exit(KILLED)


class Shop:
    """A folder with a workflow, in which every command is a process forked from this one."""

    def __init__(self, folder, model):
        self.folder = folder
        self.environment = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none", "OFFBOOK_RUNS_DIR": "runs"}
        folder.mkdir(parents=True)
        (folder / "flow.yaml").write_text(FLOW)
        (folder / "till.py").write_text(TILL)

    def run(self, *arguments, crash_at=0, tears=False):
        """Run a command, and return how it ended, and the numbers of its changes of files: all, and the writes."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._run(arguments, writing, crash_at=crash_at, tears=tears)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            passed, writes = orjson.loads(pipe.read() or b"[0, []]")
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), range(1, passed + 1), writes

    def _run(self, arguments, pipe, *, crash_at, tears):
        try:
            signal.alarm(60)
            os.chdir(self.folder)
            os.environ |= self.environment
            sys.argv = ["offbook", *arguments, "--quiet"]
            output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            points = CrashPoints(self.folder, crash_at, tears=tears)
            code = 1
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
            os.write(pipe, orjson.dumps([points.passed, points.writes]))
            os._exit(code)
        finally:
            os._exit(99)

    @property
    def effects(self):
        file = self.folder / "effects.txt"
        return [line for line in file.read_text().splitlines() if line in EFFECTS] if file.exists() else []

    @property
    def is_stored(self):
        """Whether there is a run to resume."""
        return any(self.folder.glob("runs/*/run.json"))

    @property
    def output(self):
        return (self.folder / "output.txt").read_text()

    @property
    def noted(self):
        """The effects that are noted as ended, wherever."""
        files = [*self.folder.glob("runs/*/calls/*.json*"), *self.folder.glob("recording.json*")]
        stores = {str(file).removesuffix(".journal").removesuffix(".next") for file in files}
        return {effect for store in stores for effect in self._charges(store)}

    def _charges(self, file):
        store = open_store(file)
        for tool, exchange in each_exchange(store.load().tools) if store.exists() else ():
            if tool == "charge":
                yield f"charge {exchange.arguments['amount']}"

    @property
    def recorded(self):
        """The calls in the recording, sorted; none without one."""
        if not (self.folder / "recording.json").exists():
            return []
        document = open_store(self.folder / "recording.json").load()
        tools = [(tool, orjson.dumps(exchange.arguments).decode()) for tool, exchange in each_exchange(document.tools)]
        return sorted([*tools, *((key, exchange.content) for key, exchange in document)])


@pytest.fixture
def shop(tmp_path, run, monkeypatch):
    """Opens shops. A run in this process has loaded what the forked ones need."""
    with ChatModel(salesman) as model:
        warm = Shop(tmp_path / "warm", model)
        monkeypatch.chdir(warm.folder)
        for name, value in warm.environment.items():
            monkeypatch.setenv(name, value)
        assert run("run", "flow.yaml", "--record", "recording.json")[0] == 0
        assert run("resume", "last")[0] == 2
        yield lambda name: Shop(tmp_path / name, model)


RUNS = {"live": ("run", "flow.yaml"), "recorded": ("run", "flow.yaml", "--record", "recording.json")}


class Resumption:
    """A run that was killed, resumed."""

    def __init__(self, shop, command):
        self.before, self.noted = set(shop.effects), shop.noted
        code, *_ = shop.run(*(("resume", "last") if shop.is_stored else command))
        had_succeeded = code == 2 and "the run has succeeded" in shop.output
        assert code == 0 or had_succeeded, shop.output
        self._shop = shop

    def check(self, whole):
        """Check that it did all that the whole run did, once; what had happened and was not noted, perhaps twice."""
        for effect in EFFECTS:
            is_unnoted = effect in self.before and effect not in self.noted
            assert self._shop.effects.count(effect) in ((1, 2) if is_unnoted else (1,)), effect
        assert self._shop.recorded == whole.recorded


@pytest.mark.parametrize("tears", [False, True], ids=["whole", "torn"])
@pytest.mark.parametrize("command", RUNS.values(), ids=RUNS)
def test_what_is_noted_as_ended_never_runs_again(shop, command, tears):
    whole = shop("whole")
    code, changes, writes = whole.run(*command)
    assert code == 0
    assert whole.effects == EFFECTS
    assert len(changes) > 30
    assert len(writes) > 10
    for at in sampled(writes if tears else changes, step=10):
        broken = shop(f"at-{at}")
        assert broken.run(*command, crash_at=at, tears=tears)[0] == KILLED
        Resumption(broken, command).check(whole)


def test_a_resumed_run_can_be_killed_wherever_the_first_one_could(shop):
    command = RUNS["recorded"]
    whole, once = shop("whole"), shop("once")
    _, changes, _ = whole.run(*command)
    middle = len(changes) // 2
    assert once.run(*command, crash_at=middle)[0] == KILLED
    for at in sampled(once.run("resume", "last")[1], step=10):
        broken = shop(f"at-{at}")
        assert broken.run(*command, crash_at=middle)[0] == KILLED
        assert broken.run("resume", "last", crash_at=at)[0] == KILLED
        Resumption(broken, command).check(whole)
