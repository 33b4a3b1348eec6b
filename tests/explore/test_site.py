"""Where faults can strike a run."""

import pytest

from offbook.explore.site import positions_of, row_of, sites_of
from offbook.faults import At
from tests.explore.runs import clean_run, model_call, streamed, tool_run


def test_the_sites_are_the_tries_of_calls_of_models_and_then_the_calls_of_tools():
    calls = (model_call(1), model_call(2, attempt=2))
    sites = sites_of(clean_run(calls=calls, tools=(tool_run("refund", 1), tool_run("refund", 2))))
    assert [(site.row, site.at, site.is_tool) for site in sites] == [
        ("1", At(call=1, attempt=1), False),
        ("2 try 2", At(call=2, attempt=2), False),
        ("refund 1", At(tool="refund", call=1), True),
        ("refund 2", At(tool="refund", call=2), True),
    ]


def test_calls_of_a_step_are_named_by_it():
    call = model_call(5, step_id="answer", step_call=2, has_tools=True)
    (site,) = sites_of(clean_run(calls=(call,)))
    assert (site.row, site.at, site.has_tools) == ("5 answer", At(step_id="answer", call=2, attempt=1), True)
    assert row_of(model_call(5, step_id="answer", attempt=3)) == "5 answer try 3"


@pytest.mark.parametrize(
    ("chunks", "positions"),
    [
        ([], []),
        (["text"], [("start", 0)]),
        (["text"] * 3, [("start", 0), ("text", 1), ("end", 3)]),
        (["reasoning", "text"], [("start", 0), ("end", 2)]),
        (["text", "text", "tool_call", "tool_call"], [("start", 0), ("text", 1), ("tool call", 3), ("end", 4)]),
        (["other", "text", "text", "other", "other"], [("start", 0), ("text", 2), ("end", 3)]),
        (["other", "text", "other"], [("start", 0), ("end", 2)]),
        (["other", "other"], [("start", 0)]),
    ],
)
def test_a_stream_has_places_before_it_inside_text_and_tool_calls_and_before_its_end(chunks, positions):
    assert list(positions_of(streamed(*chunks))) == positions


def test_what_is_not_streamed_has_no_places_inside():
    assert list(positions_of(model_call(chunks=("text", "text")))) == []
