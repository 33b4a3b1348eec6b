"""Runs the suites that vendors ship with the sources of their SDKs, which were made for a mock server, against ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

from msgspec import Struct

from tests.servers.foreign import announcing, skip_or_fail

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / ".scratch/vendor_suites").resolve()  # the names of tests, and with them of sessions, have its path
COMMAND = Path(sys.executable).parent / "offbook"
SERVE = (str(COMMAND), "serve", "--lenient", "--lenient-requests", "--quiet")
"""The suites send placeholders: they need answers to requests, and objects, that a vendor would refuse."""
RUN_TIMEOUT_S = 900.0


class Suite(Struct, frozen=True):
    """The tests of one SDK: by what they ask, the files and folders below `tests/api_resources`."""

    sdk: str
    path: str
    tests: dict[str, tuple[str, ...]]
    plugins: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return SOURCES / f"{self.sdk}-{version(self.sdk)}"

    def require(self) -> None:
        """Skip the test without the sources, or fail it if they are required."""
        found = self.folder.exists()
        skip_or_fail("" if found else f"{self.folder.name} is not there: run `make vendor-suites`", "VENDOR_SUITES")

    def routes(self) -> list[tuple[str, str]]:
        """The method and the path of every request that the SDK can make."""
        titles = re.findall(r'<code title="(\w+) ([^"?]*)', (self.folder / "api.md").read_text(encoding="utf-8"))
        return [(method.upper(), path) for method, path in dict.fromkeys(titles)]

    def run(self, name: str, url: str) -> dict[str, bool]:
        """Run the tests of one kind, and return for each whether it has passed."""
        with TemporaryDirectory() as temporary:
            report = Path(temporary) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={self.folder}", "--noconftest"]
            command += ["-p", "no:cacheprovider", "-p", "vendor_clients", f"--junit-xml={report}", "--tb=line", "-q"]
            command += ["-o", "asyncio_mode=auto", *(f"-p{plugin}" for plugin in self.plugins)]
            command += [str(Path("tests/api_resources", path)) for path in self.tests[name]]
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join([str(self.folder), str(Path(__file__).parent)]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "TEST_API_BASE_URL": url + self.path,
                "VENDOR_SDK": self.sdk,
            }
            ran = subprocess.run(
                command, cwd=self.folder, env=environment, timeout=RUN_TIMEOUT_S, check=False, capture_output=True
            )
            assert ran.returncode in (0, 1), ran.stdout.decode() + ran.stderr.decode()
            cases = ET.parse(report).iter("testcase")
            return {f"{case.get('classname')}::{case.get('name')}": len(case) == 0 for case in cases}


SUITES = {
    "openai": Suite(
        "openai",
        "/v1",
        {
            "chat completions": ("chat",),
            "completions": ("test_completions.py",),
            "responses": ("test_responses.py", "responses"),
            "responses, beta": ("beta/test_responses.py", "beta/responses"),
            "conversations": ("test_conversations.py", "conversations"),
            "embeddings": ("test_embeddings.py",),
            "models": ("test_models.py",),
            "moderations": ("test_moderations.py",),
        },
    ),
    "anthropic": Suite(
        "anthropic",
        "",
        {
            "messages, and their tokens": ("test_messages.py",),
            "messages, and their tokens, beta": ("beta/test_messages.py",),
            "batches of messages": ("messages",),
            "batches of messages, beta": ("beta/messages",),
            "models": ("test_models.py",),
            "models, beta": ("beta/test_models.py",),
        },
        plugins=("tests._alias_httpx",),
    ),
}


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a server without a recording."""
    with announcing(SERVE, lambda said: (found := re.search(r"(http://\S+): answering", said)) and found[1]) as url:
        yield url
