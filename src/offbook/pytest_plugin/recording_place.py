"""Where the recording of a test is, if it does not say."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

FOLDER = "recordings"
MAX_NAME_CHARS = 100
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def default_recording(test_file: Path, name: str) -> Path:
    """`recordings/<file>/<name>.json` beside the file, with what file names should not have taken out of the name."""
    return test_file.parent / FOLDER / test_file.stem / f"{file_name(name)}.json"


def file_name(name: str) -> str:
    """The name of a test, fit for a file: `test_greets[Ada]` is `test_greets-Ada`.

    Names that would become alike get a digest at their end.
    """
    plain = name.removesuffix("]").replace("[", "-", 1) if name.endswith("]") else name
    fit = _UNFIT.sub("-", plain).strip("-.")[:MAX_NAME_CHARS]
    if fit == plain.replace(" ", "-"):
        return fit
    return f"{fit}-{blake2b(name.encode(), digest_size=3).hexdigest()}".lstrip("-")


def located(recording: str, folder: Path) -> str:
    """A recording as a marker names it, with its path made relative to the test's folder."""
    scheme, separator, path = recording.rpartition(":///")
    return f"{scheme}{separator}{folder / path}"
