"""Heatmaps drawn with letters."""

from msgspec.structs import replace

from offbook.report.exploration.drawing import Drawing
from offbook.report.exploration.heatmap import heatmap_of
from tests.report.exploration import explorations


def drawn(exploration, width=80, **settings):
    return [line.plain.rstrip() for line in Drawing(width, **settings).heatmap(heatmap_of(exploration))]


def test_columns_have_their_names_where_there_is_room():
    assert drawn(explorations.naive()) == [
        "              connection_reset  connection_reset, always  tool_lost",
        "1 agent                      ✓                         !",
        "2 agent                      ·                         !",
        "find_order 1                                                      ?",
        "refund 1                                                          2",
    ]


def test_columns_have_numbers_where_there_is_none_and_bands_where_even_those_are_too_wide():
    assert drawn(explorations.naive(), width=40) == [
        "              1  2  3",
        "1 agent       ✓  !",
        "2 agent       ·  !",
        "find_order 1        ?",
        "refund 1            2",
        "",
        "1 connection_reset",
        "2 connection_reset, always",
        "3 tool_lost",
    ]
    assert drawn(explorations.naive(), width=17) == [
        "              1",
        "1 agent       ✓",
        "2 agent       ·",
        "",
        "              2",
        "1 agent       !",
        "2 agent       !",
        "",
        "              3",
        "find_order 1  ?",
        "refund 1      2",
        "",
        "1 connection_reset",
        "2 connection_reset, always",
        "3 tool_lost",
    ]


def test_every_line_fits_into_eighty_columns():
    lines = drawn(explorations.large())
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(" 1 connection_reset  ") for line in lines)


def test_of_very_many_calls_those_with_findings_are_drawn():
    lines = drawn(explorations.large(calls=200))
    assert [line for line in lines if line.startswith("200 agent")]
    assert not [line for line in lines if line.startswith("1 agent")]
    assert lines[-1] == "and 199 further calls without a finding, or too many to show"


def test_ascii_has_signs_of_its_own():
    assert all(line.isascii() for line in drawn(explorations.naive(), is_ascii=True))


def test_the_signs_that_are_there_are_explained():
    signs = Drawing(80).signs(explorations.naive().explored)
    assert signs.plain == "2 repeated side effect  ! crashed  ? diverged  ✓ recovered  · not struck"


def test_names_can_command_nothing():
    text = "\n".join(drawn(explorations.hostile(), width=200))
    assert "\x1b" not in text
    assert "##[" not in text


def test_nothing_explored_is_drawn_as_the_calls_alone():
    assert drawn(replace(explorations.naive(), explored=())) == ["", "1 agent", "2 agent", "find_order 1", "refund 1"]
