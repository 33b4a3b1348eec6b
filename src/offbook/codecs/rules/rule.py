"""A rule of an API with its source, and helpers that read requests of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from offbook.messages import JsonObject


class Breach(Struct, frozen=True):
    """A violation of a rule: its place, like `messages.3.tool_calls.0`, and the problem in our words and the vendor's.

    `fields` are extra fields of the vendor's error, such as `param` and `code`.
    """

    place: str
    reason: str
    message: str
    fields: JsonObject = {}


Check: TypeAlias = Callable[[JsonObject], Iterator[Breach]]


class Rule(Struct, frozen=True):
    """A reason why a vendor refuses requests. `source` documents or quotes it; `seen` is the date of that text.

    `check` yields the breaches in the JSON body of a request. A rule with `is_about_answers` judges answers that a
    client sends back, and applies only if the real API gave all of them.
    """

    name: str
    refuses: str
    source: str
    seen: str
    check: Check
    is_about_answers: bool = False


class RuleRefusal(Struct, frozen=True):
    """A refused request: the name of the rule, its breach, and the status."""

    rule: str
    breach: Breach
    status: int = 400

    def __str__(self) -> str:
        return f"{self.breach.place}: {self.breach.reason}" if self.breach.place else self.breach.reason

    def error_body(self, encode_error: Callable[[int, str], JsonObject]) -> JsonObject:
        """Return the body of the answer, in the shape of the vendor."""
        body = encode_error(self.status, self.breach.message)
        return body | {"error": body["error"] | self.breach.fields} if self.breach.fields else body


class ProtocolRules:
    """The rules of one protocol in the order of checking. The vendor reports the first breach."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def add(self, refuses: str, *, source: str, seen: str, is_about_answers: bool = False) -> Callable[[Check], Check]:
        """Add a function as a rule with the function's name."""

        def register(check: Check) -> Check:
            name = check.__name__.replace("_", "-")
            self.rules.append(Rule(name, refuses, source, seen, check, is_about_answers))
            return check

        return register

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def refusal(self, body: JsonObject, *, has_real_answers: bool = True) -> RuleRefusal | None:
        """Return the refusal of a request, or None."""
        checked = (rule for rule in self.rules if has_real_answers or not rule.is_about_answers)
        return next((RuleRefusal(rule.name, breach) for rule in checked for breach in rule.check(body)), None)


def objects(value: object) -> list[tuple[int, JsonObject]]:
    """Return the objects of a list with their positions, or nothing for other values."""
    if not isinstance(value, list):
        return []
    return [(position, each) for position, each in enumerate(value) if isinstance(each, dict)]


def text(value: object) -> str:
    """Return a str, or "" for any other value."""
    return value if isinstance(value, str) else ""


def a_dict(value: object) -> JsonObject:
    """Return a dict, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def a_list(value: object) -> list[Any]:
    """Return a list, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def quoted(ids: list[str]) -> str:
    """Describe ids: `tool call 'a' has`, or `tool calls 'a', 'b' have`."""
    names = ", ".join(repr(each) for each in ids)
    return f"tool call {names} has" if len(ids) == 1 else f"tool calls {names} have"
