"""Telling the agent's own code from other code, and where it waits."""

import asyncio
import json
import sys

import msgspec
import pytest

import offbook.clock
from offbook.explore.own_code import is_own_file, is_own_module, place_in_dump, place_of


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        (__file__, True),
        ("<string>", True),
        ("<frozen importlib._bootstrap>", False),
        (json.__file__, False),
        (msgspec.__file__, False),
        (offbook.clock.__file__, False),
    ],
)
def test_files_of_offbook_the_standard_library_and_packages_are_not_the_agents(file, is_own):
    assert is_own_file(file) is is_own


def test_modules_are_distinguished_like_files():
    own = [is_own_module(module) for module in (sys.modules[__name__], json, msgspec, sys, offbook.clock)]
    assert own == [True, False, False, False, False]


def outermost(function):
    return function()


def test_the_place_is_the_innermost_line_of_the_agent():
    def here():
        return place_of(sys._getframe(), inside=outermost.__code__)

    assert outermost(here) == f"test_own_code.py:{here.__code__.co_firstlineno + 1} here"


def test_what_called_the_run_is_not_the_agent():
    def look():
        return place_of(sys._getframe().f_back, inside=outermost.__code__)

    assert outermost(look) == ""


async def waits(event):
    await event.wait()


def test_if_the_loop_waits_the_place_is_where_the_first_task_waits():
    async def look():
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        task = asyncio.create_task(waits(event), name="T")
        places = loop.create_future()
        loop.call_soon(lambda: places.set_result(place_of(None, inside=outermost.__code__)))
        place = await places
        event.set()
        await task
        return place

    assert asyncio.run(look()) == f"test_own_code.py:{waits.__code__.co_firstlineno + 1} waits"


DUMP = f"""\
Current thread 0x00007f (most recent call first):
  File "{json.__file__}", line 9 in loads
  File "/home/me/desk.py", line 41 in answer
  File "{__file__}", line 30 in outermost
  File "/home/me/main.py", line 3 in <module>
"""


def test_a_dump_shows_the_same():
    assert place_in_dump(DUMP, inside=outermost.__code__) == "desk.py:41 answer"
    without = "\n".join(line for line in DUMP.splitlines() if "desk" not in line)
    assert place_in_dump(without, inside=outermost.__code__) == ""
