"""Every protocol can do what the page says of it, and no more: each cell of the table is observed."""

import pytest

from tests.wire.protocols.clients import PROTOCOLS
from tests.wire.protocols.observe import COLUMNS, Observed
from tests.wire.protocols.table import RENEWAL, TABLE

every_protocol = pytest.mark.parametrize(
    "title", [pytest.param(title, id=title, marks=pytest.mark.xdist_group(title)) for title in PROTOCOLS]
)


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """What is observed of a protocol, recorded once."""
    made = {}

    def of(title):
        if title not in made:
            made[title] = Observed(title, tmp_path_factory.mktemp("protocol"))
        return made[title]

    return of


@pytest.mark.parametrize("column", COLUMNS)
@every_protocol
def test_the_page_says_what_a_protocol_can_do(observed, title, column):
    assert TABLE.read()[column][title] == COLUMNS[column](observed(title)), RENEWAL


def test_the_page_has_a_row_for_every_protocol_and_no_other():
    shown = TABLE.read()
    assert list(shown) == list(COLUMNS)
    assert all(column.keys() == PROTOCOLS.keys() for column in shown.values())
