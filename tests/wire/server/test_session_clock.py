"""The clock of a session: whose waits let time pass."""

import asyncio
import math
import socket

from offbook.wire.server.session_clock import BUSY_S, IDLE, MESSAGE, SessionClock

TURNS = 50


class Life:
    """A life that may go on until `limit_s`."""

    def __init__(self, limit_s=60.0):
        self._limit_s = limit_s
        self.has_ended = False

    def limit_s(self):
        return self._limit_s

    def end(self, *, sleeps_s):
        self.has_ended = True

    def note_modules(self, names):
        raise AssertionError(names)


def open_link(clock, life):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clock.open(ours, life)
    return theirs


def receive(link):
    try:
        return link.recv(100)
    except BlockingIOError as error:
        return error


async def turn(times=TURNS):
    for _ in range(times):
        await asyncio.sleep(0)


async def wait_forever(link):
    """Say twice that the program waits without an end: the first answer asks it to look once more."""
    for _ in range(2):
        link.send(MESSAGE.pack(IDLE, math.inf))
        await turn()


def test_a_program_that_waits_for_nothing_has_hung():
    async def run():
        clock, life = SessionClock(), Life()
        with open_link(clock, life) as link:
            await wait_forever(link)
        clock.close()
        return life.has_ended, clock.now_s

    assert asyncio.run(run()) == (True, 60.0)


def test_what_a_killed_program_waited_for_does_not_end_its_next_life():
    async def run():
        clock, first, second = SessionClock(), Life(), Life()
        with open_link(clock, first) as link:
            with clock.working():
                await wait_forever(link)  # it is looked at again later, when nothing is on its way
            clock.close()
        with open_link(clock, second):
            await asyncio.sleep(4 * BUSY_S)  # until the loop has looked again
            await turn()
        clock.close()
        return first.has_ended, second.has_ended, clock.now_s

    assert asyncio.run(run()) == (False, False, 0.0)


def test_no_time_passes_for_a_program_that_is_being_killed():
    async def run():
        clock, life = SessionClock(), Life()
        with open_link(clock, life) as link:
            clock.stop()
            for _ in range(2):
                link.send(MESSAGE.pack(IDLE, 10.0))  # its timer would be due, and it would go on until the signal comes
                await turn()
            waiting = asyncio.create_task(clock.wait(asyncio.get_running_loop().create_future(), 0.0))
            await turn()
            link.setblocking(False)
            has_answer = not isinstance(receive(link), BlockingIOError)
            waiting.cancel()
        clock.close()
        return has_answer, life.has_ended, clock.now_s

    assert asyncio.run(run()) == (False, False, 0.0)
