"""Servers that share sessions through a recording in Redis answer as one server would."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.redis.scripts import CHANGES_BATCH
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from offbook.wire.session import STEP_HEADER
from tests.servers import redis_server
from tests.wire.http_requests import answer_to, call_of, entry_of, recording_of, text_of

STEPS = ["plan", "tools", ""]
TEXTS = ["Hi", "Bye", "new"]
NUMBERS = count()


def call(text="Hi", step="", **fields):
    return call_of(text=text, headers={STEP_HEADER: step} if step else {}, **fields)


def entries(text, *contents):
    return [entry_of(call(text), content=content) for content in contents]


RECORDING = recording_of(
    *entries("Hi", *"abc"), plan=entries("Hi", "p", "q"), tools=entries("Bye", "t")[0], last=entries("Bye", "l")[0]
)


@pytest.fixture(scope="module")
def url():
    return stored(RECORDING)


def stored(recording):
    url = redis_server.shared().url()
    open_store(url).save(document_from_dict(recording, source=url))
    return url


def peers(url, size, *, group, **options):
    """The sessions of so many servers, each with a connection of its own."""
    backends = [WireBackend(WireOptions(recording=url, **options)) for _ in range(size)]
    for backend in backends:
        backend.share_sessions(group)
    return [backend.sessions.named("s") for backend in backends]


def said(session, call):
    answer = answer_to(session, call)
    return text_of(answer) if answer.status == 200 else answer.status


CALLS = st.tuples(st.integers(0, 2), st.sampled_from(STEPS), st.sampled_from(TEXTS), st.booleans())


@settings(max_examples=15, deadline=None)
@given(calls=st.lists(CALLS, max_size=25), is_strict=st.booleans())
@example(calls=[(server, "plan", "Hi", True) for server in (0, 1, 2)], is_strict=True)
def test_three_servers_answer_like_one(url, calls, is_strict):
    """Whoever answers a call, and whatever faults have spoilt answers before."""
    options = {"strict": is_strict, "faults": ["step=plan: stream_truncate 1"]}
    shared = peers(url, 3, group=f"group {next(NUMBERS)}", **options)
    alone = WireBackend(WireOptions(recording=url, **options)).sessions.named("s")
    for server, step, text, is_streamed in calls:
        asked = call(text, step, stream=is_streamed)
        assert answer_to(shared[server], asked).content == answer_to(alone, asked).content


def test_each_answer_is_served_once_however_many_ask_at_once():
    contents = [str(number) for number in range(120)]
    sessions, start = peers(stored(recording_of(*entries("Hi", *contents))), 4, group="g"), threading.Barrier(4)

    def ask_all(session):
        start.wait()
        return [said(session, call()) for _ in range(30)]

    with ThreadPoolExecutor(4) as servers:
        answers = list(servers.map(ask_all, sessions))
    assert sorted(chain(*answers), key=int) == contents
    assert all(own == sorted(own, key=int) for own in answers)
    assert [said(session, call()) for session in sessions] == [422] * 4


def test_a_server_that_joins_late_reads_what_was_served_in_batches(url):
    size, reader = 2 * CHANGES_BATCH, open_store(url).read()
    first, late = reader.position("long", "s"), reader.position("long", "s")
    for number in range(1, size):
        assert first.claim(number).id == number
    claim = late.claim(1, size)
    assert claim.id == size
    assert claim.changes == list(range(1, size + 1))
    assert late.claim(1, size).id is None
    assert first.claim().changes == [size]


def test_a_session_that_has_expired_starts_from_the_beginning(url):
    sessions, server = peers(url, 2, group="expiring"), redis_server.shared()
    assert [said(session, call()) for session in sessions] == ["a", "b"]
    places = [key for key in server.keys(url) if ":pos:" in key or ":log:" in key]
    assert all(0 < server.client.pttl(key) <= 3_600_000 for key in places)
    server.client.delete(*places)
    assert [said(session, call()) for session in sessions * 2] == ["a", "b", "c", 422]


def test_nothing_is_shared_if_no_answer_depends_on_the_calls_before():
    url = stored(recording_of(plan=entries("Hi", "p")[0]))
    sessions = peers(url, 2, group="g")
    assert [said(session, call()) for session in sessions * 2] == ["p"] * 4
    assert not [key for key in redis_server.shared().keys(url) if ":pos:" in key]
