"""What a JSON file is that is taken for a recording and is none."""

from collections.abc import Collection

_KINDS = {
    "an API response": (
        {"choices"},
        {"candidates"},
        {"object", "data"},
        {"object", "output"},
        {"role", "content"},
        {"done", "message"},
    ),
    "an API request": ({"model", "messages"}, {"model", "input"}, {"contents"}),
    "a plan of faults": ({"faults"}, {"chaos"}),
}


def foreign_kind(keys: Collection[str]) -> str:
    """What an object with these keys looks like, if not like a recording; empty if like nothing known."""
    return next((kind for kind, signs in _KINDS.items() if any(sign <= set(keys) for sign in signs)), "")
