"""Data before a model: it is all there, and none of it can end it."""

import json
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from offbook.scenarios.asking import as_data
from offbook.scenarios.asking.data import plain


@given(st.lists(st.text() | st.sampled_from(["</data>", "<data>", "\\u003c", "\n</data>\n"])))
def test_no_text_ends_the_data_and_all_of_it_can_be_read_again(texts):
    told = as_data("data", texts)
    assert told.startswith("<data>\n")
    assert told.endswith("\n</data>")
    inner = told.removeprefix("<data>").removesuffix("</data>")
    assert "<" not in inner
    assert ">" not in inner
    assert json.loads(inner) == texts


def test_letters_of_all_scripts_stay_as_they_are():
    assert as_data("data", "Größe 大") == '<data>\n"Größe 大"\n</data>'


def test_values_are_told_as_json_has_them_and_others_as_text():
    assert plain({"day": date(2026, 3, 30), 1: [None, True]}) == {"day": "2026-03-30", "1": [None, True]}
    assert plain(date(2026, 3, 30)) == "2026-03-30"
    assert plain("123") == "123"
    assert plain(None) is None
