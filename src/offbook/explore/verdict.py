"""The families of verdicts: their names, their reasons, their severity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.text import did_you_mean

Verdict = Literal[
    "repeated effect",
    "wrong effect",
    "missing effect",
    "left behind",
    "refused by the API",
    "undetected",
    "hung",
    "bad retry",
    "crashed",
    "undecided",
    "failed partway",
    "different outcome",
    "different result",
    "not detectable",
    "failed cleanly",
    "recovered",
    "not reached",
]
"""A family of verdicts. `not reached`: the run never reached the site of the fault. `not detectable`: it was told a lie
that nothing contradicts.
"""

Reason = Literal[
    "",
    "certain",
    "failed check",
    "lost messages",
    "broken data",
    "believed a lie",
    "went on without",
    "possible",
    "storm",
    "in vain",
    "too soon",
]
"""Why a run has its verdict, in families that have several reasons."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FINDINGS: frozenset[Verdict] = frozenset(VERDICTS[: VERDICTS.index("undecided")])
"""The verdicts that show a defect."""


class Assessment(Struct, frozen=True):
    """A verdict, the evidence for it, and the reason if its family has several."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()
    reason: Reason = ""

    @property
    def severity(self) -> int:
        """The rank of the verdict and its reason: 0 is the worst."""
        return TITLES.index(self.title)

    @property
    def label(self) -> str:
        """The verdict for symbols and counts. A possible repetition is not counted as a certain one."""
        return f"possible {self.verdict}" if self.reason == "possible" else self.verdict

    @property
    def title(self) -> str:
        """The verdict with its reason: `bad retry (storm)`."""
        is_plain = self.reason in ("", "certain", "possible")
        return self.label if is_plain else f"{self.verdict} ({self.reason})"


# Severity ranks reasons, not families: a certain repetition is worse than anything, a possible one is not.
_BY_SEVERITY = (
    Assessment("repeated effect", reason="certain"),
    Assessment("wrong effect"),
    Assessment("missing effect"),
    Assessment("left behind"),
    Assessment("refused by the API"),
    Assessment("undetected", reason="failed check"),
    Assessment("bad retry", reason="lost messages"),
    Assessment("undetected", reason="broken data"),
    Assessment("undetected", reason="believed a lie"),
    Assessment("undetected", reason="went on without"),
    Assessment("repeated effect", reason="possible"),
    Assessment("hung"),
    Assessment("bad retry", reason="storm"),
    Assessment("bad retry", reason="in vain"),
    Assessment("bad retry", reason="too soon"),
    Assessment("crashed"),
    Assessment("undecided"),
    Assessment("failed partway"),
    Assessment("different outcome"),
    Assessment("different result"),
    Assessment("not detectable"),
    Assessment("failed cleanly"),
    Assessment("recovered"),
    Assessment("not reached"),
)

TITLES: tuple[str, ...] = tuple(each.title for each in _BY_SEVERITY)
"""Every verdict with its reason, worst first."""

FINDING_TITLES: frozenset[str] = frozenset(each.title for each in _BY_SEVERITY if each.verdict in FINDINGS)

LABELS: tuple[str, ...] = (*VERDICTS[:5], "possible repeated effect", *VERDICTS[5:])
"""Every label, worst first."""

FINDING_LABELS: frozenset[str] = frozenset(each.label for each in _BY_SEVERITY if each.verdict in FINDINGS)


def stored_assessment(verdict: Verdict, evidence: tuple[str, ...], reason: Reason = "") -> Assessment:
    """Return the assessment in a file: without a reason, the worst of its family."""
    family = [each for each in _BY_SEVERITY if each.verdict == verdict]
    return replace(next((each for each in family if each.reason == reason), family[0]), evidence=evidence)


def stored_titles(names: Iterable[str], *, source: str) -> frozenset[str]:
    """Return the titles in a file. Unlike in `parse_verdicts`, `repeated effect` is not a family here, but certain.

    Raises:
        InputError: there is no such verdict.
    """
    titles = frozenset(names)
    for name in sorted(titles.difference(TITLES)):
        raise InputError(f"there is no verdict {name!r}", source=source)
    return titles


def parse_verdicts(names: Iterable[str], *, source: str) -> frozenset[str]:
    """Return the titles of the verdicts with these names: families, reasons or titles. Hyphens may stand for spaces.

    Raises:
        InputError: there is no such verdict.
    """
    titles: dict[str, set[str]] = {}
    for each in _BY_SEVERITY:
        for name in (each.verdict, each.reason or each.verdict, each.label, each.title):
            titles.setdefault(name, set()).add(each.title)
    known = [name.replace(" ", "-") for name in titles if "(" not in name]
    wanted: set[str] = set()
    for name in names:
        if (spaced := name.replace("-", " ")) not in titles:
            hint = did_you_mean(spaced.replace(" ", "-"), known, kind="verdicts")
            raise InputError(f"there is no verdict {name!r}", source=source, hint=hint)
        wanted |= titles[spaced]
    return frozenset(wanted)
