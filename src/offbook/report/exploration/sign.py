"""The signs of verdicts: what stands for them in pictures, with and without colour."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.verdict import Verdict


class Sign(Struct, frozen=True):
    """A letter for a verdict, another for consoles that know ASCII alone, its style, and what the verdict means."""

    letter: str
    ascii: str
    style: str
    meaning: str


SIGNS: dict[Verdict, Sign] = {
    "repeated side effect": Sign("2", "2", "bold white on red", "a tool did twice what it should do once"),
    "hung": Sign("∞", "H", "bold white on red", "the run did not end"),
    "wrong": Sign("✗", "x", "bold red", "an assertion is broken, or it did not do what it should"),
    "crashed": Sign("!", "!", "bold red", "an error that the agent is not said to raise"),
    "silent": Sign("=", "=", "bold magenta", "something broken, or a part, was taken for good"),
    "diverged": Sign("?", "?", "cyan", "the agent asked what was never recorded"),
    "degraded": Sign("~", "~", "yellow", "another result or other calls, and nothing is broken"),
    "failed cleanly": Sign("–", "-", "blue", "an error that the agent is said to raise"),
    "recovered": Sign("✓", "+", "green", "the same result as without the fault"),
    "not struck": Sign("·", ".", "dim", "the run never came by this place"),
}
