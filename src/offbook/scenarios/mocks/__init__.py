"""Mocks of the tools of an agent under test."""

from offbook.scenarios.mocks.mock import MockContext, fails, garbled, hangs, replayed, sequence
from offbook.scenarios.mocks.mocked_tools import MockedCall, MockedTools, Mocks

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
