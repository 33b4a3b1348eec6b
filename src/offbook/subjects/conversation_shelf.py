"""What a recording of scenarios holds of one conversation."""

from __future__ import annotations

import os

from offbook.errors import InputError
from offbook.recording.document import Document
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryShelf


def conversation_shelf(recording: str | os.PathLike[str], prefix: str) -> MemoryShelf:
    """The exchanges whose steps begin with `prefix`, under what follows it. Calls of tools are left to their mocks.

    Raises:
        InputError: the recording cannot be read, or has nothing of the conversation.
    """
    store = open_store(recording)
    if not store.exists():
        hint = "record it: offbook test FILE --record PATH"
        raise InputError("there is no such recording", source=os.fspath(recording), hint=hint)
    whole = store.load()
    entries = {key.removeprefix(prefix): entry for key, entry in whole.entries.items() if key.startswith(prefix)}
    if not entries:
        hint = "record it with this scenario and agent: offbook test FILE --record PATH"
        reason = f"there is nothing of the conversation {prefix.removesuffix('/')!r} in it"
        raise InputError(reason, source=os.fspath(recording), hint=hint)
    return MemoryShelf(Document(whole.meta, entries, version=whole.version), source=store.location)
