"""The vendors' SDKs can read every answer of a server without a recording, by the tests of their vendors."""

import pytest

from tests.wire.vendor_suites.suites import SUITES, serving
from tests.wire.vendor_suites.table import (
    ANSWERED,
    NOT_ANSWERED,
    PASSED,
    RENEWAL,
    VENDORS,
    cell,
    routes_not_answered,
    row,
)

KINDS = [(sdk, name) for sdk, suite in SUITES.items() for name in suite.tests]
PACKED_EMBEDDINGS = {f"test_{kind}_create[strict]" for kind in ("method", "raw_response", "streaming_response")}
PACKED_EMBEDDINGS |= {name.replace("strict", "aiohttp") for name in PACKED_EMBEDDINGS}
"""Tests that no server passes that does what the SDK asks for: it asks for base64, and then validates for floats."""


@pytest.fixture(scope="module")
def url():
    for suite in SUITES.values():
        suite.require()
    with serving() as url:
        yield url


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("sdk", "name"), KINDS)
def test_an_sdk_reads_what_it_asks_for(sdk, name, url):
    suite = SUITES[sdk]
    outcomes = suite.run(name, url)
    failed = {test for test, passed in outcomes.items() if not passed}
    allowed = PACKED_EMBEDDINGS if name == "embeddings" else set()
    assert {test for test in failed if test.partition("::")[2] not in allowed} == set()
    assert ANSWERED.read()[PASSED][row(suite, name)] == cell(outcomes), RENEWAL


@pytest.mark.parametrize("sdk", SUITES)
def test_the_page_lists_what_nothing_stands_in_for(sdk, url):
    suite = SUITES[sdk]
    listed = {path for path, vendors in NOT_ANSWERED.read()[VENDORS].items() if sdk in vendors.split(", ")}
    assert listed == routes_not_answered(suite, url), RENEWAL
