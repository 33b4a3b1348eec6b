"""Loading workflows, from a file or from a text, with the files that they include."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from offbook.errors import Problem, WorkflowError
from offbook.workflow.inclusion import Inclusion
from offbook.workflow.report import Report
from offbook.workflow.schema import WorkflowDefinition
from offbook.workflow.shape_problems import report_shape
from offbook.workflow.validate import check_meaning
from offbook.workflow.yaml_document import MAX_BYTES, read_yaml


def load_workflow(path: str | os.PathLike[str], *, tools: Iterable[str] = ()) -> WorkflowDefinition:
    """The workflow in a YAML file, checked, with its sub-workflows in place.

    `tools` are further tools, beside those that the file declares, that its steps may call.

    Raises:
        WorkflowError: the file, or one that it includes, cannot be read or is no workflow that could run.
            It holds all problems, each with its file, line and place.
    """
    file = Path(path)
    return _loaded(file, Inclusion(_loaded, file=file), frozenset(tools))


def parse_workflow(
    text: str, *, source: str = "<text>", folder: str | os.PathLike[str] | None = None, tools: Iterable[str] = ()
) -> WorkflowDefinition:
    """The workflow in a YAML text, checked. `folder` is what paths of sub-workflows are relative to.

    Raises:
        WorkflowError: it is no workflow that could run; holds all problems.
    """
    inclusion = Inclusion(_loaded, folder=None if folder is None else Path(folder))
    return _parsed(text, source, inclusion, frozenset(tools))


def _loaded(file: Path, inclusion: Inclusion, tools: frozenset[str]) -> WorkflowDefinition:
    return _parsed(_text(file), str(file), inclusion, tools)


def _parsed(text: str, source: str, inclusion: Inclusion, tools: frozenset[str]) -> WorkflowDefinition:
    document, positions = read_yaml(text, source=source)
    report = Report(source=source, positions=positions)
    try:
        definition = WorkflowDefinition.model_validate(document)
    except ValidationError as error:
        report_shape(error, document, report)
        report.conclude()
        raise
    whole = inclusion.included(definition, report, tools=tools)
    check_meaning(whole, report, tools=tools)
    report.conclude()
    return whole


def _text(file: Path) -> str:
    """The text of a file, which must be UTF-8; of one that is too long, enough to be refused."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise WorkflowError([Problem(error.strerror or str(error), source=str(file))]) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        reason, hint = "the file is not UTF-8", "save it as UTF-8"
        raise WorkflowError([Problem(reason, "", line, column, hint, str(file))]) from None
