"""Mocks: stand-ins for the tools of an agent under test."""

from understudy.scenarios.mocks.call import MockedCall
from understudy.scenarios.mocks.context import MockContext
from understudy.scenarios.mocks.conversation import MockedTools
from understudy.scenarios.mocks.fails import fails
from understudy.scenarios.mocks.garbled import garbled
from understudy.scenarios.mocks.hangs import hangs
from understudy.scenarios.mocks.mocks import Mocks
from understudy.scenarios.mocks.replayed import replayed
from understudy.scenarios.mocks.sequence import sequence

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
