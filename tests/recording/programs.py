"""Programs that tests run as processes of their own, so that they can exit, fork, race and be killed for real."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

import msgspec

from offbook.errors import InputError
from offbook.messages import Response, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.journal import Journal
from offbook.recording.stores.locate import open_store
from offbook.session.recording_provider import RecordingProvider
from offbook.session.recording_tools import record_tools

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
UNCLOSED = []


class Echo(Provider):
    """Answers at once, with what it was asked."""

    name = "echo"

    async def send(self, request):
        return WholeReply(Response(content=request.messages[-1]["content"], model=request.model))


def redis_client(url):
    """A client of the database of a recording."""
    import redis  # noqa: PLC0415 - it takes longer to load than all else here, and most programs do without

    return redis.Redis.from_url(url.partition("?")[0])


def start(program, *arguments):
    """`program`, a function of this file, under way in a process of its own, with pipes to and from it."""
    call = f"import sys; from {__name__} import {program.__name__} as program; program(*sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", call, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process):
    """What the program printed and complained of, after it has ended well."""
    try:
        printed, complaints = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, complaints.decode()
    return printed.decode(), complaints.decode()


def record_together(location, children, calls):
    """Fork children that record at the same moment, each `calls` calls of a model and of a tool.

    Half of the model's calls go under keys of their own, the others under one key that all share.
    """
    gate, pids = os.pipe(), []
    for child in range(int(children)):
        pids.append(os.fork())
        if not pids[-1]:
            os.close(gate[1])
            os.read(gate[0], 1)
            asyncio.run(record_numbered(location, child, int(calls)))
            os._exit(0)
    os.close(gate[0])
    os.close(gate[1])
    await_children(pids)


async def record_numbered(location, child, calls):
    async with RecordingProvider(Echo(), location) as recorder, record_tools({"echo": echo}, location) as tools:
        for name in (f"{child}-{number}" for number in range(calls)):
            tools["echo"](text=name)
            await _say(recorder, name, step_id=name)
            await _say(recorder, name, step_id="loop")


def echo(text):
    return text


def tell(line):
    """Print a line at once, whole."""
    os.write(1, f"{line}\n".encode())


def nursery():
    """For each line read, bring up a child that records at that location until it is killed; tell when it is dead.

    If the line has a number, the child shares the recording, and its calls from that number on are not answered.
    """
    for number, line in enumerate(sys.stdin):
        child = os.fork()
        if not child:
            tell(f"born {os.getpid()}")
            location, *hangs_at = line.split()
            if hangs_at:
                asyncio.run(record_until_it_hangs(location, prefix=number, calls=int(hangs_at[0])))
            asyncio.run(record_for_ever(location, prefix=number))
        os.waitpid(child, 0)
        tell("dead")


async def record_for_ever(location, *, prefix):
    """Record calls of a model and of a tool, and tell of each when it is done; fold now and then."""
    names = (f"{prefix}-{number}" for number in count())
    while True:
        async with RecordingProvider(Echo(), location) as recorder, record_tools({"echo": echo}, location) as tools:
            for name in (next(names) for _ in range(10)):
                await _say(recorder, name, step_id=name)
                tell(f"model {name}")
                tools["echo"](text=name)
                tell(f"tool {name}")


async def record_until_it_hangs(url, *, prefix, calls):
    """Make calls of a model and of a tool in turn through a shared recording, and tell of each when it is done.

    The last is not answered: tell when it is asked for.
    """

    async def hang(text):
        tell(f"asked {text}")
        await asyncio.Event().wait()

    model, tools = RecordingProvider(Echo(), url, record="new"), record_tools({"echo": echo_later}, url, record="new")
    for number in range(calls + 1):
        if number == calls:
            model = RecordingProvider(Hanging(), url, record="new")
            tools = record_tools({"echo": hang}, url, record="new")
        await make_call(number, f"{prefix}-{number}", model, tools)


async def make_call(number, name, model, tools):
    """Make a call of the model or of the tool, tell of it when it is done, and return what was told."""
    if number % 2:
        await tools["echo"](text=name)
    else:
        await _say(model, name, step_id=name)
    done = f"{'tool' if number % 2 else 'model'} {name}"
    tell(done)
    return done


async def echo_later(text):
    return text


def leave_unclosed(location, folder):
    """Record, and end without closing anything. Tells which files there were until then."""
    recorder = RecordingProvider(Echo(), location)
    UNCLOSED.append(recorder)
    asyncio.run(recorder.complete([{"role": "user", "content": "Hi"}], "m", step_id="greet"))
    tell(" ".join(file_sizes(folder)))


def open_at_once(location, children, rounds):
    """Time and again, have several children open a recording that is not there yet, at the same moment."""
    for number in range(int(rounds)):
        gate = os.pipe()
        pids = []
        for child in range(int(children)):
            pids.append(os.fork())
            if not pids[-1]:
                os.close(gate[1])
                os.read(gate[0], 1)
                writer = open_store(location.replace("/run.", f"/run{number}.")).write()
                writer.append(f"child {child}", Exchange(content="done"))
                writer.close()
                os._exit(0)
        os.close(gate[0])
        os.close(gate[1])
        await_children(pids)


def die_at_each_step(template, folder, program):
    """Run a program on copies of the template, the first killed at its first step on the file system, and so on.

    Tells what each had told before it was killed, after the number of its copy.
    """
    for number in count():
        copy = Path(folder) / str(number)
        shutil.copytree(template, copy)
        tell(f"copy {number}")
        pid = os.fork()
        if not pid:
            kill_at_step(number)
            globals()[program](copy / "run.json")
            os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            return


def kill_at_step(number):
    """Have this process killed right before its nth step from now: a file opened, locked, renamed, removed or such."""
    steps = count()

    def hook(event, _):
        if event in STEPS and next(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


STEPS = {"open", "os.rename", "os.remove", "os.chmod", "os.truncate", "fcntl.flock", "os.mkdir"}


def append_and_close(path):
    """Append a call of a model and one of a tool, and close; do so twice. Tells what was appended."""
    for number in "12":
        writer = open_store(path).write()
        writer.append("added", Exchange(content=number))
        tell(number)
        writer.append_tool("added", ToolExchange(result=number))
        tell(number)
        writer.close()


def fold_again_and_again(path, rounds):
    """Open, append and close, over and over."""
    for number in range(int(rounds)):
        writer = open_store(path).write()
        tell(number)
        writer.append("loop", Exchange(content=str(number)))
        writer.close()


def save_another(path):
    """Replace the recording. Tells when that is done."""
    open_store(path).save(Document(entries={"new": Exchange(content="1")}))
    tell("saved")


def fork_after_opening(location, children, calls):
    """Open, record and fork; all record, and the parent closes while its children are half done."""
    writer = open_store(location).write()
    writer.append("parent", Exchange(content="before"))
    half_done, may_go_on = os.pipe(), os.pipe()
    pids = []
    for child in range(int(children)):
        pids.append(os.fork())
        if not pids[-1]:
            append_numbered(writer, f"child {child}", range(int(calls) // 2))
            os.write(half_done[1], b".")
            os.read(may_go_on[0], 1)
            append_numbered(writer, f"child {child}", range(int(calls) // 2, int(calls)))
            os._exit(0)
    os.read(half_done[0], 1)
    writer.append("parent", Exchange(content="after"))
    writer.close()
    os.write(may_go_on[1], b"." * len(pids))
    await_children(pids)


def fork_beside_a_thread(location, children, calls):
    """Fork again and again while another thread records; each child records too."""
    writer = open_store(location).write()
    is_over = threading.Event()

    def record_on():
        for number in count():
            writer.append("thread", Exchange(content=str(number)))
            os.sched_yield()  # a fork waits for the writer's lock, which this thread would else take again at once
            if is_over.is_set():
                tell(number + 1)
                return

    thread = threading.Thread(target=record_on)
    thread.start()
    for child in range(int(children)):
        pid = os.fork()
        if not pid:
            append_numbered(writer, f"child {child}", range(int(calls)))
            os._exit(0)
        await_children([pid])
    is_over.set()
    thread.join()
    writer.close()


def append_numbered(writer, key, numbers):
    for number in numbers:
        writer.append(key, Exchange(content=str(number)))


def await_children(pids):
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0


def collect_under_the_lock(location):
    """Have the garbage collector find an unclosed writer while this very thread holds the journal's lock."""
    gc.disable()
    cycle = [open_store(location).write()]
    cycle.append(cycle)
    cycle[0].append("kept", Exchange(content="kept"))
    del cycle
    journal = Journal(Path(f"{location}.journal"), beside=Path(location))
    with journal.locked():
        tell(gc.collect() > 0)


def fill_the_disk(location, folder):
    """Append what the disk has no room for, twice; then make room and append again.

    Tells of both failures, and of the sizes of all files before and after them.
    """
    writer = open_store(location).write()
    writer.append("before", Exchange(content="small"))
    sizes = file_sizes(folder)
    allow_file_size(max(sizes.values()) + 1000)
    for _ in range(2):
        try:
            writer.append("before", Exchange(content="large" * 100_000))
        except InputError as error:
            tell(error.reason)
    tell(sizes)
    tell(file_sizes(folder))
    allow_file_size(resource.RLIM_INFINITY)
    writer.append("after", Exchange(content="small"))
    writer.close()


def close_on_a_full_disk(path, size):
    """Record, and close when no file may grow over `size` bytes any more. Tells which files are left."""
    writer = open_store(path).write()
    append_numbered(writer, "kept", range(50))
    allow_file_size(int(size))
    writer.close()
    tell(" ".join(file_sizes(Path(path).parent)))


def file_sizes(folder):
    """The size of each file in the folder, by name."""
    return {path.name: path.stat().st_size for path in sorted(Path(folder).iterdir())}


def allow_file_size(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def record_afresh_together(location, children):
    """Fork children that all open a recording afresh, and then one after another record a call and close it."""
    opened, forked = os.pipe(), []
    for child in range(int(children)):
        gate = os.pipe()
        forked.append((os.fork(), gate[1]))
        if not forked[-1][0]:
            recorder = RecordingProvider(Echo(), location, record="fresh")
            os.write(opened[1], b".")
            os.read(gate[0], 1)
            asyncio.run(_say(recorder, f"p{child}"))
            asyncio.run(recorder.close())
            os._exit(0)
        os.read(opened[0], 1)
    for pid, gate_of_child in forked:
        os.write(gate_of_child, b".")
        await_children([pid])


def killed_afresh(location):
    """Record afresh, and be killed before the end."""
    recorder = RecordingProvider(Echo(), location, record="fresh")
    asyncio.run(_say(recorder, "new"))
    tell("recorded")
    os.kill(os.getpid(), signal.SIGKILL)


def end_unclosed_afresh(location):
    """Record afresh, and end without closing anything."""
    recorder = RecordingProvider(Echo(), location, record="fresh")
    UNCLOSED.append(recorder)
    asyncio.run(_say(recorder, "new"))


def fork_afresh(location):
    """Record afresh, together with a child that closes its side first."""
    recorder = RecordingProvider(Echo(), location, record="fresh")
    asyncio.run(_say(recorder, "of the parent"))
    child = os.fork()
    if not child:
        asyncio.run(_say(recorder, "of the child"))
        asyncio.run(recorder.close())
        sys.exit()
    os.waitpid(child, 0)
    asyncio.run(_say(recorder, "of the parent again"))
    asyncio.run(recorder.close())


async def _say(recorder, text, *, step_id=None):
    await recorder.complete([{"role": "user", "content": text}], "m", step_id=step_id)


class Counted(Provider):
    """Answers after a moment, with what it was asked, and counts its calls on the Redis server of the recording."""

    name = "counted"

    def __init__(self, url):
        self._client, self._key = redis_client(url), f"upstream {url}"

    async def send(self, request):
        self._client.incr(self._key)
        await asyncio.sleep(0.01)
        return WholeReply(Response(content=request.messages[-1]["content"], model=request.model))


def ask_questions(url, children, questions):
    """Fork children that ask the same questions at once through a shared recording. Each tells its counts."""

    async def ask():
        async with RecordingProvider(Counted(url), url, record="new") as recorder:
            steps = (None, "ask")
            await asyncio.gather(
                *(_say(recorder, str(each), step_id=steps[each % 2]) for each in range(int(questions)))
            )
            return recorder._recording.cache.counts

    _at_once(children, lambda: tell(msgspec.json.encode(asyncio.run(ask())).decode()))


def call_tools(url, children, questions):
    """Fork children that call the same tools at once through a shared recording, twice with equal arguments."""

    def count(text):
        return redis_client(url).incr(f"tool {url} {text}")

    async def count_later(text):
        await asyncio.sleep(0)
        return count(f"later {text}")

    async def call():
        texts = [str(each) for each in range(int(questions))]
        with record_tools({"count": count, "later": count_later}, url, record="new") as tools:
            results = [[tools["count"](text=text) for _ in range(2)] for text in texts]
            results += [await asyncio.gather(*(tools["later"](text=text) for text in texts)) for _ in range(2)]
        return results

    _at_once(children, lambda: tell(msgspec.json.encode(asyncio.run(call())).decode()))


def _at_once(children, work):
    """Fork children that start to work at the same moment."""
    gate, pids = os.pipe(), []
    for _ in range(int(children)):
        pids.append(os.fork())
        if not pids[-1]:
            os.close(gate[1])
            os.read(gate[0], 1)
            work()
            os._exit(0)
    os.close(gate[0])
    os.close(gate[1])
    await_children(pids)


class Hanging(Provider):
    """Never answers, and tells when it is asked."""

    name = "hanging"

    async def send(self, request):
        tell(f"asked {request.messages[-1]['content']}")
        await asyncio.Event().wait()


def hang_upstream(url):
    """Ask through a shared recording what is never answered."""
    asyncio.run(_say(RecordingProvider(Hanging(), url, record="new"), "Hi", step_id="greet"))


class CountingServer:
    """An MCP server that answers after a moment, and counts its requests on the Redis server of the recording."""

    credentials = ()

    def __init__(self, url):
        self._client, self._key = redis_client(url), f"mcp {url} "
        self.server = None

    def write(self, data):
        asked = msgspec.json.decode(data)
        if "id" in asked:
            count = self._client.incr(self._key + asked["method"])
            asyncio.get_running_loop().call_later(0.01, self._answer, asked, count)

    def _answer(self, asked, count):
        result = {"content": [{"type": "text", "text": f"answer {count}"}]}
        if asked["method"] != "tools/call":
            result = {"tools": [], "capabilities": {}, "serverInfo": {"name": "counting", "version": "1"}}
        log = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}
        if asked["method"] == "initialize":
            self.server.receive_from_server(msgspec.json.encode(log))
        self.server.receive_from_server(msgspec.json.encode({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


class Answers:
    """A client that waits for so many answers."""

    def __init__(self, expected):
        self.results, self.are_there, self._expected = {}, asyncio.Event(), expected

    def write(self, data):
        for line in data.splitlines():
            message = msgspec.json.decode(line)
            if "id" in message:
                self.results[message["id"]] = message["result"]
        if len(self.results) == self._expected:
            self.are_there.set()

    def end(self, exit_code):
        self.are_there.set()


def call_mcp_tools(url, children, calls):
    """Fork children that make the same calls of an MCP server at once through a shared recording, each of them twice.

    Each child tells what it was answered, and the counts of its cache.
    """
    from offbook.mcp.hub import McpHub  # noqa: PLC0415 - other programs need no MCP
    from offbook.mcp.recorder import McpRecorder  # noqa: PLC0415
    from offbook.mcp.stdio import LineServer  # noqa: PLC0415
    from offbook.wire.backend import WireBackend  # noqa: PLC0415
    from offbook.wire.options import WireOptions  # noqa: PLC0415

    async def call(recorder):
        session = McpHub(["s"], recorder=recorder).session("s", backend.sessions.named(""))
        numbers = [number // 2 for number in range(2 * int(calls))]
        client, upstream = Answers(len(numbers) + 2), CountingServer(url)
        server = upstream.server = LineServer(session, client, upstream=upstream)
        asked = [("initialize", {}), ("tools/list", {})]
        asked += [("tools/call", {"name": "count", "arguments": {"number": number}}) for number in numbers]
        for number, (method, params) in enumerate(asked):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.receive(msgspec.json.encode(message) + b"\n")
        await client.are_there.wait()
        return [client.results[number]["content"][0]["text"] for number in range(2, len(asked))]

    def work():
        recorder = McpRecorder(url, mode="new")
        answers = asyncio.run(call(recorder))
        recorder.close()
        tell(msgspec.json.encode([answers, recorder.cache.counts]).decode())

    backend = WireBackend(WireOptions(responses={}, strict=True, has_tools=True))
    _at_once(children, work)
