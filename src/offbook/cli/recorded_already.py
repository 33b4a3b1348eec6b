"""A word of warning to who records what is recorded already."""

from __future__ import annotations

import typer

from offbook.recording.stores.locate import open_store
from offbook.session import Mode, Record
from offbook.wording import printable
from offbook.workflow.recorded_steps import recorded_steps
from offbook.workflow.schema import WorkflowDefinition
from offbook.workflow.step_definition import ModelFields


def warn_of_recorded(definition: WorkflowDefinition, mode: Mode) -> None:
    """Say on one line that calls will be added to those that the recording has of the same steps.

    Raises:
        InputError: the recording cannot be read.
    """
    if not isinstance(mode, Record) or mode.record != "append" or not open_store(mode.path).exists():
        return
    asking = [step_id for step_id, step in recorded_steps(definition).items() if isinstance(step, ModelFields)]
    shelf = open_store(mode.path).read()
    try:
        is_recorded = any(shelf.last(key=step_id, fingerprint=None) is not None for step_id in asking)
    finally:
        shelf.close()
    if is_recorded:
        told = f"{mode.path} has calls of these steps already; --record-mode all replaces them"
        typer.echo(printable(told), err=True)
