"""Sessions that are runs of one program, again and again."""

import httpx2
import pytest

from offbook.recording.script import Script
from offbook.wire.rehearsal import Rehearsal
from offbook.wire.serving import serving
from offbook.wire.stage import Stage, StageOptions, plan_of
from tests.wire.calls import answer_to, call_of, entry_of, error_in, recording_of, text_of

HI, HO = call_of(text="Hi"), call_of(text="Ho")


class Watching:
    """Keeps what it is told."""

    def __init__(self):
        self.answers, self.arrivals = [], []

    def answered(self, taken, answer, outcome):
        self.answers.append((taken.site, answer.status, outcome))

    def arrived(self, taken):
        self.arrivals.append(taken.number)

    @property
    def places(self):
        return [site and (site.overall, site.attempt) for site, _, _ in self.answers]


class Runs:
    """The runs of a rehearsal."""

    def __init__(self, *entries, goes_on=False, **steps):
        options = StageOptions(responses=recording_of(*entries, **steps), strict=True, default_response="what?")
        self._stage, self._script, self._goes_on = Stage(options), Script(), goes_on
        self._is_first = True
        self.watcher = Watching()

    def session(self, *faults):
        self.watcher = Watching()
        rehearsal = Rehearsal(self._script, self.watcher, self._is_first, self._goes_on)
        self._is_first = False
        return self._stage.start("run", plan_of(faults), rehearsal)


def said(session, *calls):
    return [text_of(answer_to(session, call)) for call in calls]


def test_the_first_run_is_a_strict_replay(caplog):
    runs = Runs(entry_of(HI, content="one"))
    session = runs.session()
    assert said(session, HI) == ["one"]
    assert "served already" in error_in(answer_to(session, HI))
    assert [miss.kind for miss in session.misses] == ["exhausted"]
    assert caplog.records == []


def test_later_runs_get_equal_requests_answered_in_order_and_then_the_last_again():
    runs = Runs(entry_of(HI, content="one"), entry_of(HI, content="two"))
    said(runs.session(), HI, HI)
    assert said(runs.session(), HI, HI, HI) == ["one", "two", "two"]
    assert said(runs.session(), HI) == ["one"]


def test_entries_that_say_nothing_of_their_requests_answer_what_they_answered_in_the_first_run():
    runs = Runs(any=[{"content": "one"}, {"content": "two"}])
    assert said(runs.session(), HI, HO) == ["one", "two"]
    session = runs.session()
    assert said(session, HI, HI, HO) == ["one", "one", "two"]
    assert answer_to(session, call_of(text="Hm")).status == 422
    assert len(session.misses) == 1


def test_what_only_the_recording_has_is_answered_again_and_again():
    runs = Runs(entry_of(HI, content="one"), entry_of(HO, content="other"))
    said(runs.session(), HI)
    assert said(runs.session(), HO, HO, HI) == ["other", "other", "one"]


@pytest.mark.parametrize("fault", ["http_error 500", "connection_reset", "malformed_response", "stream_truncate 0"])
def test_an_answer_that_failed_is_due_again(fault):
    runs = Runs(entry_of(HI, content="one"), entry_of(HI, content="two"))
    said(runs.session(), HI, HI)
    session = runs.session(f"call=2 attempt=1: {fault}")
    assert said(session, HI) == ["one"]
    answer_to(session, HI)
    assert said(session, HI) == ["two"]
    assert runs.watcher.places == [(1, 1), (2, 1), (2, 2)]


def test_a_run_may_go_on_behind_a_miss_with_the_default_response():
    runs = Runs(entry_of(HI, content="one"), goes_on=True)
    said(runs.session(), HI)
    session = runs.session()
    assert said(session, HO) == ["what?"]
    assert len(session.misses) == 1
    assert [outcome for _, _, outcome in runs.watcher.answers] == ["default"]


def test_every_call_of_a_model_is_counted_and_told_also_where_nothing_is_planned():
    runs = Runs(entry_of(HI, content="one"))
    session = runs.session()
    said(session, HI)
    answer_to(session, call_of(text="Hm"))
    assert [(status, outcome) for _, status, outcome in runs.watcher.answers] == [(200, "served"), (422, "missed")]
    assert runs.watcher.places == [(1, 1), (2, 1)]


def test_a_program_that_swallows_a_miss_gets_no_more_answers():
    runs = Runs(entry_of(HI, content="one"))
    said(runs.session(), HI)
    session = runs.session()
    answer_to(session, call_of(text="Hm"))
    assert answer_to(session, HI).status == 422


def test_an_agent_that_tries_again_what_its_sdk_has_given_up_is_known_by_its_request():
    runs = Runs(entry_of(HI, content="one"))
    said(runs.session(), HI)
    session = runs.session("call=1: http_error 500")
    for retries in ("0", "1", "0", "1"):
        answer_to(session, call_of(text="Hi", headers={"x-stainless-retry-count": retries}))
    assert runs.watcher.places == [(1, 1), (1, 2), (1, 3), (1, 4)]


def test_a_late_answer_counts_when_it_has_arrived():
    runs = Runs(entry_of(call_of(text="Hi", stream=True), content="one"))
    call = call_of(text="Hi", stream=True)
    said(runs.session(), call)
    session = runs.session("call=1 attempt=1: stream_stall 1 for_ms=60000")
    taken = session.take(call)
    session.answer(taken)
    session.arrived(taken)
    said(session, call)
    assert runs.watcher.arrivals == [1]
    assert runs.watcher.places == [(1, 1), (2, 1)]


def test_a_late_answer_that_the_client_did_not_wait_for_is_tried_again():
    runs = Runs(entry_of(call_of(text="Hi", stream=True), content="one"))
    call = call_of(text="Hi", stream=True)
    said(runs.session(), call)
    session = runs.session("call=1 attempt=1: stream_stall 1 for_ms=60000")
    answer_to(session, call)
    assert said(session, call) == ["one"]
    assert runs.watcher.places == [(1, 1), (1, 2)]


def post(url, body, **options):
    with httpx2.Client(trust_env=False, timeout=5.0) as client:
        return client.post(f"{url}/v1/chat/completions", json=body, **options)


def test_a_server_tells_when_a_late_answer_has_arrived_and_forgets_runs_that_have_ended():
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with serving(responses={"_version": 2, "any": [{"content": "one"}]}, strict=True) as server:
        watching = Watching()
        rehearsal = Rehearsal(Script(), watching, is_first=True)
        server.start_session("run", faults=["call=1: stream_stall 1 for_ms=50"], rehearsal=rehearsal)
        assert post(server.session_url("run"), body).status_code == 200
        assert post(server.url, body | {"stream": False}).status_code == 200  # the server has noted the first by now
        assert watching.arrivals == [1]
        server.end_session("run")
        server.end_session("run")
        assert [session.name for session in server.sessions] == [""]


def test_a_server_tells_nothing_of_an_answer_that_the_client_did_not_wait_for():
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with serving(responses={"_version": 2, "any": [{"content": "one"}]}, strict=True) as server:
        watching = Watching()
        rehearsal = Rehearsal(Script(), watching, is_first=True)
        server.start_session("run", faults=["call=1: stream_stall 1 for_ms=60000"], rehearsal=rehearsal)
        with pytest.raises(httpx2.ReadTimeout):
            post(server.session_url("run"), body, timeout=0.1)
        assert post(server.url, body | {"stream": False}).status_code == 200
        assert watching.arrivals == []
