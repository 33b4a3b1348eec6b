"""Types that several threads decode to for the first time."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import offbook

DECODING = """
import sys
from functools import reduce
from operator import or_
from threading import Barrier, Thread

import msgspec

from offbook.decoding import convert, decode, decode_msgpack

sys.setswitchinterval(1e-6)


def new_type(number):
    fields = [(f"field_{place}", int, 0) for place in range(20)]
    parts = [msgspec.defstruct(f"Part{number}_{kind}", fields, tag=str(kind)) for kind in range(30)]
    return msgspec.defstruct(f"Whole{number}", [("parts", tuple[reduce(or_, parts), ...], ())])


def decode_in_every_way(kind, barrier):
    barrier.wait()
    assert decode(b'{"parts": []}', kind) == convert({}, kind) == decode_msgpack(msgspec.msgpack.encode({}), kind)


for number in range(20):
    kind, barrier = new_type(number), Barrier(4)
    threads = [Thread(target=decode_in_every_way, args=(kind, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_threads_may_decode_to_a_type_for_the_first_time_at_once():
    done = subprocess.run([sys.executable, "-c", DECODING], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n", done.stderr


DECODERS = re.compile(r"msgspec\.(convert|json|msgpack)\b")


def test_nothing_else_decodes_to_a_type():
    root = Path(offbook.__file__).parent
    texts = {file.relative_to(root).as_posix(): file.read_text() for file in root.rglob("*.py")}
    # parsing every file takes seconds, and few name what decodes
    found = {
        file
        for file, text in texts.items()
        if DECODERS.search(text) and any(_decodes_to_type(node) for node in ast.walk(ast.parse(text)))
    }
    assert found == {"decoding.py"}


def _decodes_to_type(call):
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    called = ast.unparse(call.func)
    if called in ("msgspec.json.decode", "msgspec.msgpack.decode"):
        return bool(call.keywords or call.args[1:])
    return called in ("msgspec.convert", "msgspec.json.Decoder", "msgspec.msgpack.Decoder")
