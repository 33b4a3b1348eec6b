"""Variables of the environment in texts of a config."""

from __future__ import annotations

import os
import re

from offbook.errors import InputError

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def filled(text: str, *, source: str, place: str) -> str:
    """The text with the value of each `${NAME}` in its place. What is filled in is not looked at again.

    Raises:
        InputError: such a variable is not set.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            hint = f"export {name}=…; a recording needs no variables: offbook test --replay PATH"
            raise InputError(f"{name} is not set", source=source, place=place, hint=hint)
        return os.environ[name]

    return _VARIABLE.sub(value, text)
