"""What answers the requests to an MCP server instead of the real one: the seam, and the values that pass it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from offbook.errors import RecordingMismatchError
from offbook.mcp.answer import McpAnswer
from offbook.mcp.message import Message
from offbook.recording.call_cache import OWN_TURN, CallTurn
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.stores.store import StoredExchange


class FoundAnswer(Struct, frozen=True):
    """An answer, and the exchange that it is from; None if it is synthetic. `key` names the exchange.

    `client_answers` are what the client answered to requests of the server when the exchange was recorded, by id.
    """

    answer: McpAnswer
    stored: StoredExchange[ToolExchange] | None = None
    client_answers: dict[bytes, Message] = field(default_factory=dict)

    @property
    def key(self) -> str | None:
        return None if self.stored is None else self.stored.key


class DueMessages(Struct, frozen=True):
    """What a server sent on its own around an exchange: the entries that come before its answer, and after it."""

    before: tuple[StoredExchange[ToolExchange], ...] = ()
    after: tuple[StoredExchange[ToolExchange], ...] = ()


NOTHING_DUE = DueMessages()


class RecordedExchange(Struct, frozen=True):
    """An exchange that was recorded: its key, and in a shared recording its id."""

    key: str
    id: int | None = None


class McpSource(ABC):
    """What answers the requests to one server, instead of the real one.

    If other processes share the recording, one of them makes a call for all, and it says whose turn that is. Unless a
    source says otherwise, every call is ours.
    """

    @abstractmethod
    def find(self, request: Message) -> FoundAnswer:
        """Return the answer to a request. It counts as served after `use`.

        Raises:
            RecordingMismatchError: there is none.
            RecordingUnavailableError: the recording cannot be reached.
        """

    def use(self, found: FoundAnswer) -> DueMessages:
        """Count an answer as served, and return what the server sends on its own around it."""
        return NOTHING_DUE

    def first_messages(self) -> Sequence[StoredExchange[ToolExchange]]:
        """Return what the server sends on its own before it has answered anything; each message once."""
        return ()

    def tool_headers(self, tool: str) -> Mapping[str, str]:
        """Return the arguments of a tool that clients repeat in headers, `Mcp-Param-NAME`, by the names of these."""
        return {}

    def shares(self, request: Message) -> bool:
        """Return whether one process makes such a request for all, so that it has to wait for its `turn`."""
        return False

    async def turn(self, request: Message) -> CallTurn:
        """Wait until a call is ours to make, or `find` has its answer. `note_recorded` or `give_up` ends a turn.

        Raises:
            RecordingUnavailableError: the recording cannot be reached.
        """
        return OWN_TURN

    def claim(self, request: Message) -> CallTurn | None:
        """Return the turn to record a call that was made without one; None if another process records it.

        Raises:
            RecordingUnavailableError: the recording cannot be reached.
        """
        return OWN_TURN

    def claim_own(self, message: Message) -> CallTurn | None:
        """Return the turn to record a message that the server has sent on its own, like `claim`."""
        return OWN_TURN

    def note_recorded(self, turn: CallTurn, recorded: RecordedExchange | None) -> None:
        """End a turn by what was recorded, if anything was."""

    def give_up(self, turn: CallTurn) -> None:
        """End a turn without an answer. Safe to call twice."""


class NothingRecorded(McpSource):
    """Answers nothing, because nothing is recorded yet."""

    def find(self, request: Message) -> FoundAnswer:
        raise RecordingMismatchError("nothing is recorded yet", kind="missing")
