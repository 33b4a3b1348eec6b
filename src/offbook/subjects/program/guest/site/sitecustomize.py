"""Takes over the tools of a Python program that offbook runs, then loads the hidden `sitecustomize`."""

import importlib.util
import os
import sys


def _take_over() -> None:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location(
        "_offbook_guest", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None or "_offbook_guest" in sys.modules:
        return
    package = sys.modules["_offbook_guest"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    importlib.import_module("_offbook_guest.take_over").install()
    if os.environ.get("OFFBOOK_CALLS"):
        importlib.import_module("_offbook_guest.calls").install()


def _load_hidden() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    places = [each for each in sys.path if os.path.abspath(each or os.curdir) != own]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if sys.version_info >= (3, 11) and sys.implementation.name == "cpython" and os.environ.get("OFFBOOK_TOOLS_URL"):
    _take_over()
_load_hidden()
