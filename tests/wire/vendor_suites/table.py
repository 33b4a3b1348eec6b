"""What the server stands in for, as a page: `python -m tests.wire.vendor_suites.table` renews its tables."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from tests.wire.documented_table import DocumentedTable
from tests.wire.vendor_suites.suites import SUITES, Suite, serving

PAGE = "wire/surface.md"
ANSWERED = DocumentedTable(PAGE, "## Answered", corner="what is asked")
NOT_ANSWERED = DocumentedTable(PAGE, "## Not answered", corner="path", groups=True)
RENEWAL = f"docs/{PAGE} is out of date: python -m tests.wire.vendor_suites.table renews it"
PASSED = "tests that pass"
VENDORS = "vendor"


def row(suite: Suite, name: str) -> str:
    return f"{suite.sdk}: {name}"


def cell(outcomes: Mapping[str, bool]) -> str:
    return f"{sum(outcomes.values())} of {len(outcomes)}"


def routes_not_answered(suite: Suite, url: str) -> set[str]:
    """Ask every route of an SDK, and return the first parts of the paths that nothing stands in for."""
    versions = {"anthropic-version": "2023-06-01"} if suite.sdk == "anthropic" else {}
    found = set[str]()
    with httpx.Client(base_url=url, trust_env=False) as client:
        for number, (method, path) in enumerate(suite.routes()):
            place, headers = suite.path + path, versions | {"x-offbook-session": f"{suite.sdk} {number}"}
            answer = client.request(method, place, headers=headers, json={} if method == "POST" else None)
            if answer.status_code == 404:
                assert answer.json()["error"]["message"].startswith("offbook does not stand in for "), (
                    f"{method} {place}"
                )
                found.add(f"`{'/'.join(place.split('/')[:3])}`")
    return found


def renew() -> None:
    """Run the suites, and write what they say into the page."""
    with serving() as url:
        found = {suite.sdk: routes_not_answered(suite, url) for suite in SUITES.values()}
        paths = sorted(set().union(*found.values()))
        NOT_ANSWERED.write({VENDORS: {path: ", ".join(sdk for sdk in found if path in found[sdk]) for path in paths}})
        ANSWERED.write(
            {
                PASSED: {
                    row(suite, name): cell(suite.run(name, url)) for suite in SUITES.values() for name in suite.tests
                }
            }
        )


if __name__ == "__main__":
    renew()
