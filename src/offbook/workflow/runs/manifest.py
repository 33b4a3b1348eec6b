"""The manifest of a stored run: its start arguments, and whether its files have changed since."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct, field

from offbook.errors import RunError
from offbook.messages import JsonObject
from offbook.version import __version__
from offbook.workflow.file.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition


class RunManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beginning of a run.

    `path` is the workflow's file, absolute; `given_path` is how it was named, in the folder
    `started_in`. `files` has the SHA-256 of it and of every file that it includes, by absolute path.
    `steps` counts the steps of the workflow itself. `options` is what whoever runs it must know to go on.
    """

    id: str
    workflow: str
    path: str
    given_path: str
    started_in: str
    files: dict[str, str]
    version: str
    started_at: str
    steps: int
    state: JsonObject = field(default_factory=dict)
    options: JsonObject = field(default_factory=dict)

    def changes(self) -> list[str]:
        """What is no longer as it was when the run was started: files, and the version of offbook."""
        changed = [name for name, digest in self.files.items() if _digest(Path(name)) != digest]
        return changed if self.version == __version__ else [*changed, f"offbook, which was {self.version}"]


def read_manifest(path: Path) -> RunManifest:
    """The manifest in a file.

    Raises:
        RunError: it cannot be read, or is none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except OSError as error:
        raise RunError(error.strerror or str(error), source=str(path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "go on with it by the offbook that started it"
        raise RunError(f"this is no start of a run: {error}", source=str(path), hint=hint) from None


def file_digests(definition: WorkflowDefinition, path: str | os.PathLike[str]) -> dict[str, str]:
    """The SHA-256 of a workflow's file and of all that it includes, by absolute path; empty for a missing file."""
    file = Path(path).resolve()
    files = dict.fromkeys([file, *_included_files(definition.steps, file.parent)])
    return {str(each): _digest(each) for each in files}


def _included_files(steps: Iterable[AnyStep], folder: Path) -> Iterator[Path]:
    for step in steps:
        if isinstance(step, LoopStep):
            yield from _included_files(step.steps, folder)
        elif isinstance(step, SubworkflowStep):
            file = None if step.path is None else (folder / step.path).resolve()
            if file is not None:
                yield file
            if step.workflow is not None:
                yield from _included_files(step.workflow.steps, folder if file is None else file.parent)


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
