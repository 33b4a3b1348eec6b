"""The redaction rules of a run, which a user states once: in `[redaction]` of the config, or with `redacting`.

Everything that writes a file without its own `Redactor` uses the active one. It applies to the whole process, because
servers and logs have their own threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offbook.decoding import convert

if TYPE_CHECKING:
    from offbook.recording.redact.redactor import RedactionRules, Redactor

CONFIG_FILE = "offbook.toml"
PROJECT_FILE = "pyproject.toml"
_in_force: list[Redactor] = []


@contextmanager
def redacting(redactor: Redactor | None) -> Iterator[None]:
    """Apply the rules of `redactor` until the block ends; None changes nothing.

    Recordings, reports, traces, spans, metrics and logs that offbook writes in the block follow them, except those with
    their own redactor.
    """
    before = list(_in_force)
    if redactor is not None:
        _in_force[:] = [redactor]
    try:
        yield
    finally:
        _in_force[:] = before


def add_rules_of(file: str | os.PathLike[str]) -> None:
    """Add the rules of a config to those in force, until the block of `redacting` ends that this is called in.

    Raises:
        InputError: the file cannot be read, or its `[redaction]` is wrong.
    """
    rules = _rules_of(Path(file))
    if rules is not None:
        _in_force[:] = [redactor_in_force().with_rules(rules)]


def redactor_in_force() -> Redactor:
    """Return the redactor with the rules of the run; without any, the one with the built-in rules."""
    return _in_force[0] if _in_force else _built_in()


def has_rules_in_force() -> bool:
    """Return whether the run has rules besides the built-in ones."""
    return bool(_in_force)


@cache
def _built_in() -> Redactor:
    from offbook.recording.redact.redactor import Redactor  # noqa: PLC0415 - commands look for rules before they need it

    return Redactor()


MAX_CREDENTIALS = 1_000
_credentials: dict[str, None] = {}
_knowing: dict[Redactor, Redactor] = {}
"""The redactor in force, and the same with these credentials; empty if that is not made yet."""


def note_credentials(credentials: Iterable[str]) -> None:
    """Remember the credentials of this process's calls, to keep them out of output and reports."""
    if new := [each for each in credentials if each not in _credentials]:
        _credentials.update(dict.fromkeys(new))
        while len(_credentials) > MAX_CREDENTIALS:
            del _credentials[next(iter(_credentials))]
        _knowing.clear()


def _redactor_of_output() -> Redactor:
    plain = redactor_in_force()
    if (found := _knowing.get(plain)) is None:
        _knowing.clear()
        found = _knowing[plain] = plain.knowing(list(_credentials))
    return found


def mask_shown(text: str) -> str:
    """Return a text to be printed or reported without secrets, by the active rules, and without the credentials of the
    calls. Quick if it has none.
    """
    return _redactor_of_output().text(text)


def mask_reported(data: bytes) -> bytes:
    """Return a report's JSON without secrets, as JSON, by the rules of `mask_shown`."""
    return _redactor_of_output().encoded(data)


def mask_text(text: str) -> str:
    """Return a text without secrets that is compared or stored, by the active rules. Quick if it has none."""
    return redactor_in_force().text(text)


def mask_json(value: Any) -> Any:
    """Return a JSON value without secrets, by the active rules. Quick if it has none."""
    return redactor_in_force().value(value)


def rules_near(start: str | os.PathLike[str] = ".") -> Redactor | None:
    """Return a redactor with the rules of the nearest config that has some, in `start` or above it, or None.

    Raises:
        InputError: its `[redaction]` is wrong, or it is not TOML.
    """
    folder = Path(start).resolve()
    for file in (place / name for place in (folder, *folder.parents) for name in (CONFIG_FILE, PROJECT_FILE)):
        if file.is_file() and (rules := _rules_of(file)) is not None:
            return _built_in().with_rules(rules)
    return None


def _rules_of(file: Path) -> RedactionRules | None:
    try:
        if b"redaction" not in file.read_bytes():  # most have none, and parsing takes time
            return None
    except OSError:
        return None  # what needs the config says so
    from offbook.schema_errors import read_toml  # noqa: PLC0415

    document = read_toml(file)
    if file.name == PROJECT_FILE:
        tool = document.get("tool")
        section = tool.get("offbook") if isinstance(tool, dict) else None
        document = section if isinstance(section, dict) else {}
    return read_rules(document["redaction"], source=str(file)) if "redaction" in document else None


def read_rules(section: object, *, source: str) -> RedactionRules:
    """Return the rules of the section `[redaction]` of a config.

    Raises:
        InputError: it is wrong; the error names the file and the key.
    """
    import msgspec  # noqa: PLC0415

    from offbook.errors import InputError  # noqa: PLC0415
    from offbook.recording.redact.redactor import RedactionRules  # noqa: PLC0415
    from offbook.schema_errors import explain_msgspec_error, shape_hint  # noqa: PLC0415

    try:
        rules = convert(section, RedactionRules)
        _built_in().with_rules(rules)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        hint = shape_hint(reason, path, RedactionRules)
        raise InputError(reason, source=source, place=f"redaction{path}", hint=hint) from None
    except InputError as error:
        raise InputError(error.reason, source=source, place="redaction", hint=error.hint) from None
    return rules
