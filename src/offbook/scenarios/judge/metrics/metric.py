"""What a metric is: one thing that conversations are judged by."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Literal, get_args

from offbook.errors import InputError
from offbook.scenarios.asking import Asker
from offbook.scenarios.judge.case import Case, Finding

Scope = Literal["turn", "conversation"]
_NAME = re.compile(r"[A-Za-z][\w-]{0,99}")


class Metric(ABC):
    """Judges the last turn of each case, or the whole conversation, as `scope` says.

    `prompt` is what a model is told to judge by; it is empty where none is asked.

    Raises:
        InputError: the name is more than letters, digits, `_` and `-`, or the scope is unknown.
    """

    def __init__(self, name: str, *, scope: Scope = "turn") -> None:
        if not _NAME.fullmatch(name):
            hint = "a name is up to 100 letters, digits, '_' and '-', and starts with a letter"
            raise InputError(f"{name!r} is no name for a metric", source="metric", place="name", hint=hint)
        if scope not in get_args(Scope):
            raise InputError(f"unknown scope {scope!r}", source=name, place="scope", hint="turn, conversation")
        self.name, self.scope, self.prompt = name, scope, ""

    @abstractmethod
    async def judge(self, case: Case, asker: Asker) -> Finding:
        """What there is to say of `case`. Whatever is raised is told as the failure of this judgement."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
