"""Importing files, as the command does."""

import json

from offbook.recording.format.document import Document
from offbook.recording.redact.redactor import Redactor
from offbook.wire.convert.reader import read_traces
from offbook.wire.convert.trace import record_trace


def imported(*paths, kind=None):
    """The recording that becomes of files, and what of them could not be mapped, as (place, reason)."""
    document = Document()
    unmapped = record_trace(read_traces([str(path) for path in paths], kind=kind), document, redactor=Redactor())
    return document, [(each.place, each.reason) for each in unmapped]


def write_json(path, *values):
    path.write_text("\n".join(json.dumps(value) for value in values))
    return path
