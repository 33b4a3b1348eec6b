"""Sites: which requests a plan's line covers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.faults import At, HttpError, Site, StreamStall, StreamTruncate, ToolLost, ToolSite

HERE = Site("triage", "answer", 2, 7, 3)

sites = st.builds(
    Site,
    st.sampled_from(["", "triage"]),
    st.sampled_from([None, "answer", "ask"]),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 3),
)


@pytest.mark.parametrize(
    "at",
    [
        At(),
        At(workflow="triage"),
        At(step_id="answer"),
        At(step_id="answer", call=2),
        At(call=7),
        At(attempt=3),
        At(chunk=5),
        At(workflow="triage", step_id="answer", call=2, attempt=3),
    ],
)
def test_what_is_reported_must_fit_and_what_is_not_reported_fits_all(at):
    assert at.covers(HERE)


@pytest.mark.parametrize(
    "at",
    [
        At(workflow="other"),
        At(step_id="ask"),
        At(step_id="answer", call=7),
        At(call=2),
        At(attempt=1),
        At(step_id="answer", call=2, attempt=1),
    ],
)
def test_one_thing_that_does_not_fit_is_enough(at):
    assert not at.covers(HERE)


@given(sites, sites)
def test_a_site_is_named_by_what_covers_it_and_no_other_call(site, other):
    at = At.of(site)
    assert at.covers(site)
    same_call = (other.workflow, other.step_id, other.call) == (site.workflow, site.step_id, site.call)
    if at.covers(other) and site.workflow:
        assert same_call or other.overall == site.overall
        assert other.attempt == site.attempt


@pytest.mark.parametrize("fault", [StreamTruncate(), StreamStall(), StreamTruncate(3)])
def test_a_chunk_says_how_far_a_stream_comes(fault):
    assert At(chunk=3).fail(fault).fault.after_chunks == 3


def test_only_faults_of_streams_fire_at_a_chunk():
    with pytest.raises(InputError, match="http_error does not fire inside a stream"):
        At(chunk=3).fail(HttpError(500))


def test_a_chunk_and_a_fault_that_say_different_things_are_refused():
    with pytest.raises(InputError, match="after 3 chunks, the fault after 5"):
        At(chunk=3).fail(StreamTruncate(5))


@given(sites, st.none() | st.integers(1, 9))
def test_the_site_of_a_tool_covers_no_call_of_a_model(site, call):
    assert not At(tool="answer", call=call).covers(site)


@pytest.mark.parametrize(
    "at", [At(), At(call=2), At(tool="search"), At(tool="search", call=2), At(tool="refund", call=1)]
)
def test_a_call_of_a_tool_is_covered_by_sites_of_that_tool_alone(at):
    assert not at.covers(ToolSite("refund", 2))


def test_a_call_of_a_tool_is_named_by_its_tool_and_its_number():
    site = ToolSite("refund", 2)
    assert str(At.of(site)) == "tool=refund call=2"
    assert At.of(site).covers(site)
    assert At(tool="refund").covers(site)


@pytest.mark.parametrize("condition", [{"workflow": "w"}, {"step_id": "s"}, {"attempt": 1}, {"chunk": 0}])
def test_of_a_call_of_a_tool_nothing_but_its_number_can_be_set(condition):
    with pytest.raises(InputError) as caught:
        At(tool="refund", call=1, **condition).fail(ToolLost())
    assert [caught.value.place] == list(condition)


def test_faults_of_models_and_of_tools_fire_at_their_own_kind_alone():
    with pytest.raises(
        InputError, match="tool_lost is a fault of tools, and the site has no tool\n  hint: add the tool, like "
    ):
        At(call=1).fail(ToolLost())
    with pytest.raises(
        InputError, match="http_error is a fault of models, not of tools\n  hint: use one of tool_empty, "
    ):
        At(tool="refund").fail(HttpError(500))


@pytest.mark.parametrize(("number", "is_covered"), [(1, False), (2, True), (9, True)])
def test_a_fault_can_last_from_a_call_on(number, is_covered):
    assert At(since=2).covers(Site("", None, number, number, 1)) is is_covered
    assert At(step_id="a", since=2).covers(Site("", "a", number, 99, 3)) is is_covered
    assert At(tool="refund", since=2).covers(ToolSite("refund", number)) is is_covered


def test_a_site_is_one_call_or_all_from_one_on():
    with pytest.raises(InputError, match="the site says call=3 too") as caught:
        At(call=3, since=2).fail(HttpError(500))
    assert caught.value.place == "since"
