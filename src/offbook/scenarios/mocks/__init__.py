"""Mocks: stand-ins for the tools of an agent under test."""

from offbook.scenarios.mocks.call import MockedCall
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.conversation import MockedTools
from offbook.scenarios.mocks.fails import fails
from offbook.scenarios.mocks.garbled import garbled
from offbook.scenarios.mocks.hangs import hangs
from offbook.scenarios.mocks.mocks import Mocks
from offbook.scenarios.mocks.replayed import replayed
from offbook.scenarios.mocks.sequence import sequence

__all__ = [
    "MockContext",
    "MockedCall",
    "MockedTools",
    "Mocks",
    "fails",
    "garbled",
    "hangs",
    "replayed",
    "sequence",
]
