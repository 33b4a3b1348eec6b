"""Projects with tests of their own, run by a pytest inside this one."""

import anyio  # noqa: F401 - what an inner run loads is forgotten after it; other tests would get it twice
import h11  # noqa: F401
import httpcore  # noqa: F401
import httpcore2  # noqa: F401
import httpx  # noqa: F401
import httpx2  # noqa: F401
import pytest

import offbook.pytest_plugin.fixture
import offbook.pytest_plugin.plugin
import offbook.pytest_plugin.scenario_item  # noqa: F401 - loaded here, or each inner run would load it anew

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
addopts = --strict-markers --strict-config -p no:cacheprovider
filterwarnings = error
"""
MODEL = """
from offbook import Provider, Response
from offbook.messages import WholeReply

ADA = [{"role": "user", "content": "Ada"}]


class Echo(Provider):
    name = "echo"

    async def send(self, request):
        text = f"Hello {request.messages[-1]['content']}"
        return WholeReply(Response(content=text, model=request.model, provider=self.name))


def greet(offbook, name="Ada", step="greet"):
    asked = [{"role": "user", "content": name}]
    return offbook.run(offbook.provider.complete(asked, model="m", step_id=step)).content
"""


NEEDED_PLUGINS = "offbook.pytest_plugin.plugin,xdist.plugin,pytest_asyncio.plugin"


class Project:
    """A folder with tests. `run` runs them here, `run_apart` in a process of its own."""

    def __init__(self, pytester, environment):
        self.pytester, self.folder, self.environment = pytester, pytester.path, environment
        self.write("pytest.ini", SETTINGS)
        self.write("model.py", MODEL)
        pytester.syspathinsert()

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def test(self, text, *, path="test_it.py"):
        """A file of tests; what they need most is imported."""
        return self.write(path, f"import asyncio\nimport pytest\nfrom model import ADA, Echo, greet\n\n{text}")

    def run(self, *arguments):
        return self.pytester.runpytest_inprocess("-q", *arguments, no_reraise_ctrlc=True)

    def run_apart(self, *arguments, plugins=NEEDED_PLUGINS):
        """Run them with these plugins alone; with None, with all that are installed, which takes seconds to load."""
        if plugins is not None:
            self.environment.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            self.environment.setenv("PYTEST_PLUGINS", plugins)
        return self.pytester.runpytest_subprocess("-q", *arguments)

    def record(self, *arguments):
        """Record what passes."""
        return self.run("--offbook-record=once", *arguments)

    def recordings(self):
        """The recordings that there are, relative to their folder."""
        root = self.folder / "recordings"
        return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


@pytest.fixture
def project(pytester, monkeypatch):
    return Project(pytester, monkeypatch)


def printed_output(result):
    """All that a run has printed."""
    return result.stdout.str() + result.stderr.str()
