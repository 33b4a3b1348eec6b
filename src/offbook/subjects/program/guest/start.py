"""The script that a program's interpreter runs first. It must be readable for any Python 3."""

import importlib
import importlib.util
import os
import sys

OLDEST = (3, 11)
UNFIT = 78
SHARED = [
    ("virtual_time", ("virtual_time.py",)),
    ("first_use", ("providers", "first_use.py")),
]
"""Modules of offbook that need only the standard library."""


def load_guest() -> None:
    """Load the package from its folder."""
    folder = os.path.dirname(os.path.abspath(__file__))
    package = importlib.util.spec_from_file_location(
        "_offbook_guest", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    offbook = os.path.join(folder, *[os.pardir] * 3)
    shared = [
        importlib.util.spec_from_file_location("_offbook_guest." + name, os.path.join(offbook, *where))
        for name, where in SHARED
    ]
    for spec in [package, *shared]:
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def main() -> None:
    is_known = sys.implementation.name == "cpython" and sys.platform.startswith("linux")
    if sys.version_info < OLDEST or not is_known or not getattr(sys, "_is_gil_enabled", lambda: True)():
        sys.exit(UNFIT)
    load_guest()
    importlib.import_module("_offbook_guest.server").serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
