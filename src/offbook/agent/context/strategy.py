"""The seam of compaction: how a transcript is made smaller."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from offbook.agent.context.size import Size
from offbook.agent.message import Message


class CompactResult(Struct, frozen=True):
    """What became of a transcript. `phase` tells how far the strategy went; at 0 it left everything as it was."""

    messages: Sequence[Message]
    phase: int = 0


class CompactStrategy(ABC):
    """A way to make a transcript smaller. Strategies hold no state, and may be shared.

    `starts_at` is the share of the budget above which the strategy is asked at all.
    """

    starts_at: float = 1.0

    @abstractmethod
    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        """A smaller transcript, or the same if nothing can be done.

        Never raises, and never changes `messages`.

        Args:
            size: how many tokens a sequence of messages is.
            step_hint: which steps are done and which are not, for a summary to tell.
        """
