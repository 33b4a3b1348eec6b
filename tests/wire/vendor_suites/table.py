"""What the server stands in for, as a page: `python -m tests.wire.vendor_suites.table` renews its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import httpx

from tests.wire.documented_table import DocumentedTable
from tests.wire.vendor_suites.suites import SUITES, Suite, serving

PAGE = "wire/surface.md"
ANSWERED = DocumentedTable(PAGE, "## Answered", corner="what is asked")
NOT_ANSWERED = DocumentedTable(PAGE, "## Not answered", corner="path")
RENEWAL = f"docs/{PAGE} is out of date: python -m tests.wire.vendor_suites.table renews it"
PASSED = "tests that pass"
ROUTES = "routes"


def row(suite: Suite, name: str) -> str:
    return f"{suite.sdk}: {name}"


def cell(outcomes: Mapping[str, bool]) -> str:
    return f"{sum(outcomes.values())} of {len(outcomes)}"


def routes_not_answered(suite: Suite, url: str) -> dict[str, str]:
    """Ask every route of an SDK, and count by the begin of their paths those that nothing stands in for."""
    versions = {"anthropic-version": "2023-06-01"} if suite.sdk == "anthropic" else {}
    found: Counter[str] = Counter()
    with httpx.Client(base_url=url, trust_env=False) as client:
        for number, (method, path) in enumerate(suite.routes()):
            place, headers = suite.path + path, versions | {"x-offbook-session": f"{suite.sdk} {number}"}
            answer = client.request(method, place, headers=headers, json={} if method == "POST" else None)
            if answer.status_code == 404:
                assert answer.json()["error"]["message"].startswith("offbook does not stand in for "), (
                    f"{method} {place}"
                )
                found["/".join(place.split("/")[:3])] += 1
    return {f"{suite.sdk}: `{path}`": str(count) for path, count in sorted(found.items())}


def renew() -> None:
    """Run the suites, and write what they say into the page."""
    with serving() as url:
        NOT_ANSWERED.write(
            {ROUTES: {k: v for suite in SUITES.values() for k, v in routes_not_answered(suite, url).items()}}
        )
        ANSWERED.write(
            {
                PASSED: {
                    row(suite, name): cell(suite.run(name, url)) for suite in SUITES.values() for name in suite.tests
                }
            }
        )


if __name__ == "__main__":
    renew()
