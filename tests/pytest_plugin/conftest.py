"""Projects with tests of their own, run by a pytest inside this one."""

import sys

import pytest
import pytest_asyncio.plugin
import xdist.plugin

from offbook.pytest_plugin import plugin as offbook_plugin

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


PLUGINS = [offbook_plugin, pytest_asyncio.plugin]


class LoadedModules:
    """A plugin that keeps what a run loads: pytester forgets it, and tests would load it again, some of it twice."""

    def __init__(self, folder):
        self._folder, self._modules = str(folder), {}

    def pytest_unconfigure(self):
        self.keep()

    def keep(self):
        self._modules.update(sys.modules)

    def restore(self):
        """Load the modules again as they were, without those of the project.

        All are put back before one is looked at: the path of a namespace package is found by way of its parent.
        """
        added = {name: module for name, module in self._modules.items() if name not in sys.modules}
        sys.modules.update(added)
        for name, module in added.items():
            places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
            if any(place.startswith(self._folder) for place in places):
                del sys.modules[name]


class Project:
    """A folder with tests. `run` runs them here, `run_apart` in a process of its own."""

    def __init__(self, pytester, environment, loaded):
        self.pytester, self.folder, self.environment, self.loaded = pytester, pytester.path, environment, loaded
        self.write("pytest.ini", SETTINGS)
        self.write("model.py", MODEL)
        # to find all that are installed takes as long as many a run
        environment.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
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
        plugins = [*PLUGINS, self.loaded]
        result = self.pytester.runpytest_inprocess("-q", *arguments, no_reraise_ctrlc=True, plugins=plugins)
        self.loaded.restore()
        return result

    def run_apart(self, *arguments):
        names = [option for plugin in (*PLUGINS, xdist.plugin) for option in ("-p", plugin.__name__)]
        return self.pytester.runpytest_subprocess("-q", *names, *arguments)

    def record(self, *arguments):
        """Record what passes."""
        return self.run("--offbook-record=once", *arguments)

    def recordings(self):
        """The recordings that there are, relative to their folder."""
        root = self.folder / "recordings"
        return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


@pytest.fixture
def loaded(tmp_path_factory):
    modules = LoadedModules(tmp_path_factory.getbasetemp())
    yield modules
    modules.restore()


@pytest.fixture
def project(loaded, pytester, monkeypatch):  # in this order: pytester forgets what is loaded until its end
    yield Project(pytester, monkeypatch, loaded)
    loaded.keep()


def printed_output(result):
    """All that a run has printed."""
    return result.stdout.str() + result.stderr.str()
