"""Starts a Prometheus that scrapes one target, and asks it."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.foreign import announcing, skip_or_fail

ANSWER_TIMEOUT_S = 20.0
POLL_S = 0.05
ALIGNMENT_S = 0.01  # by how much less Prometheus shifts the time of a scrape
EXAMPLE = Path(__file__).parents[2] / "examples/observability/prometheus.yml"
"""What users start, here with another port, a shorter interval and no collector."""


def reason_to_skip() -> str:
    """Why Prometheus cannot run here, or nothing if it can."""
    return "" if shutil.which("prometheus") else "prometheus is not installed"


def require() -> None:
    """Skip the test where Prometheus cannot run, or fail it if it is required."""
    skip_or_fail(reason_to_skip(), "PROMETHEUS")


class PrometheusServer:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an expression gives now, each with `metric`, its labels, and `value`, [time, text]."""
        parameters = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{parameters}", timeout=ANSWER_TIMEOUT_S) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def wait_for_scrape(self) -> None:
        """Ask until there are samples of a scrape that began after this moment."""
        since_s, never = time.time() + ALIGNMENT_S, threading.Event()
        while not self.query(f"timestamp(up) > {since_s} and up == 1"):
            assert time.time() < since_s + ANSWER_TIMEOUT_S, f"no scrape since {since_s}: {self.query('timestamp(up)')}"
            never.wait(POLL_S)


@contextmanager
def scraping(port: int, folder: Path) -> Iterator[PrometheusServer]:
    """A fresh Prometheus that scrapes a port of this machine and keeps its data in `folder`."""
    config = folder / "prometheus.yml"
    example = EXAMPLE.read_text().replace("scrape_interval: 5s", "scrape_interval: 200ms, scrape_timeout: 200ms")
    config.write_text(example.partition("  - job_name: collector")[0].replace("9464", str(port)))
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with announcing(command, _announced_url) as url:
        yield PrometheusServer(url)


def _announced_url(said: str) -> str | None:
    """The URL, once Prometheus is ready: the two lines come in either order."""
    found = re.search(r'"Listening on" address=(\S+)', said)
    return f"http://{found[1]}" if found and "Server is ready to receive web requests" in said else None
