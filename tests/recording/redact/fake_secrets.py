"""Secrets that nobody issued, one or more of each kind, made when they are needed so that no file holds one."""

from __future__ import annotations

import json
import string
from base64 import b64encode
from importlib.resources import files
from random import Random
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from offbook.recording.redact.secret_kinds import _OWN_RULES, SPECIAL_KINDS

LETTERS = string.ascii_letters + string.digits


def fake_secrets(random: Random) -> dict[str, tuple[str, str]]:
    """A text with a secret of every rule, by its kind, and of the secret what must not be left.

    Further rules of a kind have a number as well.
    """
    data = json.loads(files("offbook.recording.redact").joinpath("gitleaks_rules.json").read_bytes())
    rules = [(rule.kind, rule.words[0], rule.pattern, rule.context) for rule in _OWN_RULES]
    rules += [(rule["kind"], rule["words"][0], rule["pattern"], rule.get("context", False)) for rule in data["rules"]]
    made: dict[str, tuple[str, str]] = {}
    for number, (kind, word, pattern, context) in enumerate(rules):
        made[f"{kind} {number}" if kind in made else kind] = _of_rule(word, pattern, context, random)
    return made | {kind: _special(kind, random) for kind in ("bearer-token", *SPECIAL_KINDS)}


def letters(random: Random, count: int) -> str:
    return "".join(random.choice(LETTERS) for _ in range(count - 1)) + random.choice(string.digits)


def _special(kind: str, random: Random) -> tuple[str, str]:
    secret = letters(random, 32)
    match kind:
        case "json-web-token":
            return f"ey{'J'}{secret}.ey{'J'}{secret}.{secret}", secret
        case "bearer-token":
            return f"Bearer {secret}", secret
        case "private-key":
            name = random.choice(["RSA PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "OPENSSH PRIVATE KEY"])
            return f"-----BEGIN {name}-----\n{secret * 2}\n-----END {name}-----", secret
        case "basic-credentials":
            encoded = b64encode(f"ada:{secret}".encode()).decode()
            return f"Basic {encoded}", encoded
        case "url-password":
            return f"{random.choice(['postgres', 'mysql', 'amqp', 'https'])}://ada:{secret}@db.example.com/x", secret
        case _:
            name = random.choice(["token", "api-key", "sig", "password", "client_secret", "key"])
            return f"https://example.com/x?a=1&{name}={secret}", secret


def _of_rule(word: str, pattern: str, context: bool, random: Random) -> tuple[str, str]:
    parsed = parser.parse(pattern)
    drawn = [_made(parsed, random) for _ in range(3)]
    text = max(drawn, key=lambda each: len(set(each[-40:])) + 99 * any(map(str.isdigit, each)))
    if not context:
        return (f"discord.com{text}" if text.startswith("/api") else text), text[-12:]
    return f"{word}_secret = '{text}'", text


def _made(parts: Any, random: Random) -> str:
    """A text that a parsed pattern matches; a lookaround is left to chance."""
    return "".join(_made_part(kind, value, random) for kind, value in parts)


def _made_part(kind: Any, value: Any, random: Random) -> str:
    if kind is code.LITERAL:
        return chr(value)
    if kind is code.IN:
        return random.choice(_members(value))
    if kind in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
        least, most, inner = value
        return "".join(_made(inner, random) for _ in range(least if least > 1 else min(most, 1)))
    if kind is code.SUBPATTERN:
        return _made(value[-1], random)
    if kind is code.BRANCH:
        return _made(random.choice(value[1]), random)
    assert kind in (code.ASSERT, code.ASSERT_NOT, code.AT), kind
    return ""


def _members(items: list[tuple[Any, Any]]) -> str:
    found = ""
    for kind, value in items:
        if kind is code.LITERAL:
            found += chr(value)
        elif kind is code.RANGE:
            found += "".join(map(chr, range(value[0], value[1] + 1)))
        elif kind is code.CATEGORY:
            found += string.digits if value is code.CATEGORY_DIGIT else LETTERS + "_"
    return "".join(char for char in found if char.isalnum()) or found
