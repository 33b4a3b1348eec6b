"""A recording as the runs that replay it share it: what is looked up in it is indexed once."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from offbook.recording.format.document import rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.cursor import AlikeArguments, AlikeRequests
from offbook.recording.stores.store import RecordingReader, StoredExchange

if TYPE_CHECKING:
    from offbook.recording.match.websocket import TurnIndex
    from offbook.session.protocols import CrossProtocolIndex

MAX_WRITTEN_ENTRIES = 500


class Tape:
    """A recording with its rules and its indexes, which are built when they are first needed.

    Calls that a `strict` one does not answer are refused. Raises RecordingFormatError if its rules are invalid.
    """

    def __init__(self, reader: RecordingReader, *, strict: bool) -> None:
        self.reader, self.strict = reader, strict
        self.rules = rules_from_meta(reader.meta, source=reader.source)

    @cached_property
    def alike(self) -> AlikeRequests:
        """The entries by what their requests are without what does not count."""
        return AlikeRequests(self.reader, self.rules)

    @cached_property
    def alike_arguments(self) -> AlikeArguments:
        """The tool calls by what their arguments are without what does not count."""
        return AlikeArguments(self.reader.tools, self.rules)

    @cached_property
    def cross_protocol(self) -> CrossProtocolIndex:
        """The entries that also answer requests in other protocols."""
        from offbook.session.protocols import CrossProtocolIndex  # noqa: PLC0415 - it loads the codecs

        return CrossProtocolIndex(self.reader, self.rules)

    @cached_property
    def answers_in_order(self) -> bool:
        """Whether answers depend on the order of calls: there are some that answer any request, one after the other.

        They are written by hand, and looked for among the first entries alone.
        """
        written = [stored for stored in islice(self.reader, MAX_WRITTEN_ENTRIES) if stored.fingerprint is None]
        return len(written) > 1 or not all(stored.repeats for stored in written)

    @cached_property
    def websocket_turns(self) -> TurnIndex:
        """The exchanges of WebSocket sessions."""
        from offbook.recording.match.websocket import TurnIndex  # noqa: PLC0415 - only sessions need it

        return TurnIndex(self.reader, self.rules)

    @cached_property
    def written(self) -> list[StoredExchange[Exchange]]:
        """The answers that were written by hand for requests that nothing else answers, in order."""
        return [stored for stored in self.reader if stored.is_conditional]

    @cached_property
    def models(self) -> list[str]:
        """The models that the recording names, in its order."""
        models = (stored.exchange.model for stored in self.reader)
        return list(dict.fromkeys(model for model in models if model))
