"""Types that several threads decode to for the first time."""

import ast
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

from offbook.struct_types import ready

sys.setswitchinterval(1e-6)


def new_type(number):
    fields = [(f"field_{place}", int, 0) for place in range(20)]
    parts = [msgspec.defstruct(f"Part{number}_{kind}", fields, tag=str(kind)) for kind in range(30)]
    return msgspec.defstruct(f"Whole{number}", [("parts", tuple[reduce(or_, parts), ...], ())])


def decode(kind, barrier):
    barrier.wait()
    assert msgspec.json.decode(b'{"parts": []}', type=ready(kind)) == msgspec.convert({}, ready(kind))


for number in range(20):
    kind, barrier = new_type(number), Barrier(4)
    threads = [Thread(target=decode, args=(kind, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_threads_may_decode_to_a_type_for_the_first_time_at_once():
    done = subprocess.run([sys.executable, "-c", DECODING], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


PLAIN = {
    "Any",
    "Continuation",
    "Raw",
    "bool",
    "bytes",
    "dict",
    "float",
    "int",
    "list",
    "msgspec",
    "object",
    "str",
    "tuple",
}
"""Names of types of which msgspec keeps nothing."""


def _decoded_types(source):
    """Yield what calls of msgspec are to decode to."""
    for node in ast.walk(ast.parse(source)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called in ("msgspec.convert", "msgspec.json.Decoder", "msgspec.json.decode", "msgspec.msgpack.decode"):
            named = [each.value for each in node.keywords if each.arg == "type"]
            yield from named or node.args[0 if called.endswith("Decoder") else 1 :]


def _is_safe(kind):
    if isinstance(kind, ast.Call):
        return ast.unparse(kind.func) == "ready"
    return {each.id for each in ast.walk(kind) if isinstance(each, ast.Name)} <= PLAIN


def test_every_type_that_is_decoded_to_is_made_ready():
    root = Path(offbook.__file__).parent
    found = [(file, kind) for file in root.rglob("*.py") for kind in _decoded_types(file.read_text())]
    assert len(found) > 30
    unsafe = [f"{file.relative_to(root)}: {ast.unparse(kind)}" for file, kind in found if not _is_safe(kind)]
    assert unsafe == ["struct_types.py: kind"]
