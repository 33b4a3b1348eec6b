"""The page that tells what SDKs do about faults tells what they really do."""

import re

import pytest

from offbook import serving
from offbook.faults.catalog import FAULT_TYPES
from tests.wire.conformance.answers import ANSWERS
from tests.wire.conformance.sdks import SDKS
from tests.wire.conformance.table import RENEWAL, TABLES, WHOLE, observed

pytestmark = pytest.mark.xdist_group("sdks")


@pytest.fixture(scope="module")
def server():
    with serving(responses={"plain": ANSWERS["plain"]}, retry_after_ms=1) as running:
        yield running


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.title)
def test_the_table_reports_what_an_sdk_does(sdk, is_streamed, server):
    assert TABLES[is_streamed].read()[sdk.title] == observed(sdk, server, is_streamed=is_streamed), RENEWAL


def test_every_fault_has_a_row_except_those_of_websockets_and_answers_like_any_other():
    of_http = {name for name, kind in FAULT_TYPES.items() if not name.startswith("ws_") and "lies" not in kind.traits}
    assert {re.findall(r"\w+", fault)[0] for fault in WHOLE.read()[SDKS[0].title]} == of_http
