"""The kinds of secrets with a known shape, and the search for them in a text.

Few texts hold secrets, so a text is searched in stages, and most searches end with the first. A secret has a run of
letters, digits and a few signs that is longer than a word (`_RUN`). The run and the text before it are searched for the
words of all rules at once. At each word found, the patterns of its rules are tried. No rule is searched for in the
whole text, so the time is linear in its length.

The rules are our own and, in `gitleaks_rules.json`, those of gitleaks.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from math import log2

from msgspec import Struct

from offbook.decoding import decode
from offbook.vendors import SECRET_QUERY

PLAIN_MARK = "<redacted>"

_WORD = r"(?:[A-Z][a-z]{0,20}+|[a-z]{1,20}+)"
_JOINT = r"(?:[-_./]|\\{1,3}/)"
_PROSE = rf"(?!{_WORD}(?:{_JOINT}++{_WORD}){{0,50}}+{_JOINT}*+(?![\w~+=%-]|\\{{1,3}}u002))"
"""Does not match words joined by hyphens or similar signs, which are not random."""

_ESCAPED = r"\\{1,3}(?:/|u002[BbFf])"
"""An escaped slash or plus in JSON."""

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
_START += r"|(?<=%25[0-9A-Fa-f]{2})|(?<=%2525[0-9A-Fa-f]{2})|(?<=%252525[0-9A-Fa-f]{2}))"
_DIGIT = r"(?=[A-Za-z_-]{0,64}\d)"
"""Words have no digit. In random letters, the first may come late."""

_GAP = r"(?:[\s'\"`=]|\\{1,3}[nrt'\"]|%(?:25){0,3}(?:20|22|27|0[aAdD]))"
_BETWEEN = rf"[ \t\w.-]{{0,30}}+{_GAP}{{0,6}}?(?:=>?|>|:{{1,3}}=?|\|\||\?=|,|%(?:25){{0,3}}3[aAdD]){_GAP}{{0,6}}+"
"""Text between the word of a rule and the secret: the rest of a name, quotes, and a sign."""


class SecretSpan(Struct, frozen=True, order=True):
    """A secret in a text: its start and end, its kind, and the mark that replaces it."""

    start: int
    end: int
    kind: str
    mark: str = PLAIN_MARK


class _Rule(Struct, frozen=True):
    """A kind of secret: `pattern` matches it `back` characters before one of the lower-case `words`.

    With `context`, it matches after the word, some more letters, and a sign like `=` or `:`; such a secret has a digit.
    The secret must exceed `entropy`, in bits per character.
    """

    kind: str
    words: list[str]
    pattern: str
    back: int = 0
    context: bool = False
    entropy: float = 0.0


class _Rules(Struct, frozen=True):
    rules: list[_Rule]


_OWN_RULES = [
    _Rule("anthropic-key", ["sk-ant-"], rf"sk-ant-{_PROSE}[A-Za-z0-9_-]{{16,}}"),
    _Rule("openai-key", ["sk-"], rf"sk-(?!ant-){_PROSE}(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{{16,}}"),
    _Rule("google-key", ["aiza"], r"AIza[A-Za-z0-9_-]{30,}"),
    _Rule("google-auth-key", ["aq."], r"AQ\.[A-Za-z0-9_-]{40,}", entropy=3.5),
    _Rule("google-refresh-token", ["1//0"], r"1//0[A-Za-z0-9_-]{40,}", entropy=3.5),
    _Rule("google-oauth-token", ["ya29."], r"ya29\.[A-Za-z0-9_-]{20,}"),
    _Rule("google-client-secret", ["gocspx-"], r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    _Rule("aws-key", ["akia", "asia", "abia", "acca"], r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])"),
    _Rule(
        "aws-secret-key",
        ["secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret_key", "aws_secret"],
        r"[A-Za-z0-9/+]{40}",
        context=True,
        entropy=3.5,
    ),
    _Rule("github-token", ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _Rule("github-token", ["github_pat_"], r"github_pat_[A-Za-z0-9_]{30,}"),
    _Rule("gitlab-token", ["glpat-"], r"glpat-[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2,20})*"),
    _Rule(
        "slack-token",
        [*(f"xox{letter}-" for letter in "abcdeoprs"), "xapp-", "xoxe.xox"],
        rf"(?:(?:xoxe\.)?xox[abcdeoprs]|xapp)-{_PROSE}(?:[A-Za-z0-9-]|%[0-9A-F]{{2}}){{10,}}",
    ),
    _Rule("hugging-face-token", ["hf_"], r"hf_[A-Za-z0-9]{30,}"),
    _Rule("groq-key", ["gsk_"], r"gsk_[A-Za-z0-9]{30,}"),
    _Rule("xai-key", ["xai-"], r"xai-[A-Za-z0-9]{30,}"),
    _Rule("cerebras-key", ["csk-"], r"csk-[a-z0-9]{30,}"),
    _Rule("nvidia-key", ["nvapi-"], r"nvapi-[A-Za-z0-9_-]{40,}"),
    _Rule("replicate-token", ["r8_"], r"r8_[A-Za-z0-9]{30,}"),
    _Rule("mistral-key", ["mistral"], r"[A-Za-z0-9]{32}", context=True, entropy=3.5),
    _Rule("elevenlabs-key", ["sk_"], r"sk_[a-f0-9]{40,}"),
    _Rule("langsmith-key", ["lsv2_"], r"lsv2_(?:pt|sk)_[a-f0-9]{32,}(?:_[a-f0-9]+)?"),
    _Rule("tavily-key", ["tvly-"], r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}"),
    _Rule("firecrawl-key", ["fc-"], r"fc-[a-f0-9]{32,}"),
    _Rule("pinecone-key", ["pcsk_"], r"pcsk_[A-Za-z0-9_]{30,}"),
    _Rule("weights-and-biases-key", ["wandb"], r"[a-f0-9]{40}", context=True),
    _Rule("weights-and-biases-key", ["wandb_v1_"], r"wandb_v1_[A-Za-z0-9_]{60,}"),
    _Rule("azure-key", ["jqqj99"], r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}(?![A-Za-z0-9])", back=52),
    _Rule("azure-openai-key", ["azure_openai", "azure-openai", "azureopenai"], r"[a-f0-9]{32}", context=True),
    _Rule("together-key", ["tgp_v1_"], r"tgp_v1_[A-Za-z0-9_-]{40,}"),
    _Rule("together-key", ["together"], r"[a-f0-9]{64}", context=True, entropy=3.0),
    _Rule("fireworks-key", ["fw_"], rf"fw_{_DIGIT}[A-Za-z0-9]{{22,40}}(?![A-Za-z0-9_])", entropy=3.5),
    _Rule("voyage-key", ["pa-", "al-"], rf"(?:pa|al)-{_PROSE}{_DIGIT}[A-Za-z0-9_-]{{43}}(?![\w-])", entropy=4.0),
    _Rule("jina-key", ["jina_"], r"jina_[a-f0-9]{32}[A-Za-z0-9_-]{20,}"),
    _Rule(
        "vercel-token", [f"vc{letter}_" for letter in "aikpr"], rf"vc[aikpr]_{_DIGIT}[A-Za-z0-9_-]{{50,}}", entropy=3.5
    ),
    _Rule("vercel-token", ["vercel_token", "vercel-token"], r"[A-Za-z0-9]{24}", context=True, entropy=3.5),
    _Rule("e2b-key", ["e2b_"], r"e2b_[a-f0-9]{40}"),
    _Rule("cloudflare-token", ["cfk_", "cfut_", "cfat_"], rf"cf(?:k|ut|at)_{_DIGIT}[A-Za-z0-9_-]{{40,}}", entropy=3.5),
    _Rule("neon-key", ["napi_"], r"napi_[a-z0-9]{48,}"),
    _Rule("neon-password", ["npg_"], rf"npg_{_DIGIT}[A-Za-z0-9]{{12,}}", entropy=3.0),
    _Rule("tailscale-key", ["tskey-"], r"tskey-[a-z]{3,12}-[A-Za-z0-9]{10,}(?:-[A-Za-z0-9]{20,})?"),
    _Rule("resend-key", ["re_"], rf"re_{_DIGIT}[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}(?![A-Za-z0-9_])", entropy=3.5),
    _Rule("runpod-key", ["rpa_"], r"rpa_[A-Z0-9]{30,}[a-z0-9]{0,12}"),
    _Rule("buildkite-token", ["bkua_", "bkaj_", "bkct_", "bkrt_"], r"bk(?:ua|aj|ct|rt)_[A-Za-z0-9_-]{20,}"),
    _Rule("circleci-token", ["ccipat_", "cciprj_"], r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{20,}_[a-f0-9]{40}"),
    _Rule("mongodb-atlas-secret", ["mdb_sa_sk_"], r"mdb_sa_sk_[A-Za-z0-9_-]{40,}"),
    _Rule("daytona-key", ["dtn_"], r"dtn_[a-f0-9]{48,}"),
    _Rule("llamacloud-key", ["llx-"], rf"llx-{_DIGIT}[A-Za-z0-9]{{40,}}"),
    _Rule("langfuse-key", ["sk-lf-"], r"sk-lf-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"),
    _Rule("webhook-secret", ["whsec_"], r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    _Rule("supabase-key", ["sbp_", "sb_secret_"], r"(?:sbp_[a-f0-9]{40,}|sb_secret_[A-Za-z0-9_-]{20,})"),
    _Rule("docker-token", ["dckr_"], r"dckr_[po]at_[A-Za-z0-9_-]{20,}"),
    _Rule("figma-token", ["figd_"], r"figd_[A-Za-z0-9_-]{30,}"),
    _Rule("stripe-key", ["sk_", "rk_"], r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,}"),
    _Rule("azure-storage-key", ["accountkey="], r"(?i:accountkey)=[A-Za-z0-9+/]{40,}={0,2}"),
    _Rule("azure-access-key", ["sharedaccesskey="], r"(?i:sharedaccesskey)=[A-Za-z0-9+/]{40,}={0,2}"),
    _Rule("discord-webhook", ["/api/webhooks/"], r"(?<=discord\.com|cordapp\.com)/api/webhooks/\d+/[A-Za-z0-9_-]{30,}"),
    _Rule("telegram-bot-token", ["/bot"], r"/bot\d{6,12}:[A-Za-z0-9_-]{30,}"),
    _Rule("npm-auth-token", ["_authtoken"], r"[A-Za-z0-9_-]{20,}", context=True),
    _Rule("bearer-token", ["bearer "], rf"(?i:bearer) {{1,9}}{_PROSE}(?:[A-Za-z0-9._~+/-]|{_ESCAPED}){{16,}}=*"),
]
_JWT_WORD = b"eyj"
_jwt = re.compile(
    r"(?<![\w-])(?=[\w-]*+\.eyJ[\w-]{10,}+\.[\w-]{10})[\w-]*?(?P<secret>eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]{10,}+)",
    re.ASCII,
)
_private_key = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_private_key_end = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_putty_lines = re.compile(r"Private-Lines: \d{1,3}(?P<secret>(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{1,80}+(?=[\s\\]|\Z))++)")
_private_key_lines = re.compile(
    r"(?:(?:\s|\\[nr])++[A-Z][A-Za-z-]{1,20}: [^\n\\]{0,200})*+"
    rf"(?:(?:\s|\\[nr])++(?:[A-Za-z0-9+/=]|{_ESCAPED}){{16,}}+)++"
)
_PRIVATE_KEY_CHARS = 16_384
_end_of_text = re.compile(r"\Z")
_basic = re.compile(rf"{_START}(?i:basic) {{1,9}}(?P<secret>[A-Za-z0-9+/]{{8,}}+={{0,2}})")
_url_password = re.compile(r"://[^\s/?#:@\"'<>\\]{0,128}+:(?P<secret>[^\s/?#@\"'<>\\$*{}]{1,256})@")
_QUERY_WORDS = ("token", "secret", "password", "passwd", "signature", "credential")
"""Endings of secret query parameters, like `my_session_token`, in addition to those of `vendors`."""
_QUERY_ENDS = tuple(name.encode() for name in ("key", *_QUERY_WORDS, *sorted(SECRET_QUERY)))
_QUERY_NAME = (
    r"(?i:(?!next|page|sync|continu)[a-z_-]{0,20}(?:api[-_]?key|access[-_]?key|"
    rf"{'|'.join(_QUERY_WORDS)})|{'|'.join(map(re.escape, sorted(SECRET_QUERY)))})"
)
_FORM = r"(?:\A|(?<=\"))(?=[^\"\s]*\d)(?=[\w.~+*%-]+=[\w.~+*%/-]+(?:&[\w.~+*%\[\]-]+=[\w.~+*%/:-]*)*(?:\"|\Z))(?!key=)"
"""The beginning of a text that is a form as a whole. Words have no digit."""
_query_secret = re.compile(
    rf"(?:[?&;#]|%(?:25){{0,3}}(?:3[fFbB]|26|23)|{_FORM}){_QUERY_NAME}(?:=|%(?:25){{0,3}}3[dD])"
    r"(?P<secret>[^\s&#;\"'<>\\{}$*]{8,4096}+)"
)
_form_field = re.compile(
    rf"form-data; name=\"{_QUERY_NAME}\"[^\r\n]{{0,200}}(?:\r?\n[^\r\n]{{1,200}}){{0,3}}\r?\n\r?\n"
    r"(?P<secret>[^\r\n]{8,4096}+)"
)
_encoded_sign = re.compile(rb"%(?:25){0,3}3d")
SPECIAL_KINDS = ("json-web-token", "private-key", "basic-credentials", "url-password", "query-secret")

_RUN_CHARS = 15
_RUN = b"x" * _RUN_CHARS
_LOOK_BACK = 110
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=~%-"
_SHAPE = bytes(ord("x") if char in _LETTERS else ord(" ") for char in range(256))


def secret_kinds() -> list[str]:
    """Return the names of all kinds, sorted."""
    return sorted({*SPECIAL_KINDS, *(rule.kind for rule in _all_rules())})


def searchable(text: str) -> bytes:
    """Return a text for the quick searches: in lower case, with `?` for non-ASCII characters."""
    return text.encode("ascii", "replace").lower()


def secret_spans(text: str, lowered: bytes) -> list[SecretSpan]:
    """Return the secrets of known kinds, in no order. `lowered` is `searchable(text)`.

    Equal secrets have the same mark. A guessable secret, such as a password, has no digest in its mark.
    """
    spans = list(_special_spans(text, lowered))
    windows = list(_windows(lowered.translate(_SHAPE)))
    return [*spans, *_rule_spans(text, lowered, windows)] if windows else spans


def _windows(shape: bytes) -> Iterator[tuple[int, int]]:
    """Yield the long runs with their preceding text, as parts that do not overlap."""
    start, end = 0, -1
    found = shape.find(_RUN)
    while found >= 0:
        if end < 0 or found - _LOOK_BACK > end:
            if end >= 0:
                yield start, end
            start = max(found - _LOOK_BACK, 0)
        end = shape.find(b" ", found)
        if end < 0:
            end = len(shape)
        found = shape.find(_RUN, end)
    if end >= 0:
        yield start, end


def _rule_spans(text: str, lowered: bytes, windows: list[tuple[int, int]]) -> Iterator[SecretSpan]:
    words, by_word = _word_index()
    covered, tried = 0, dict[tuple[str, str], int]()
    for start, end in windows:
        has_jwt = False
        for hit in _overlapping(words, lowered, start, end):
            has_jwt = has_jwt or hit[0] == _JWT_WORD
            for rule in by_word[hit[0]]:
                identity = rule.kind, rule.pattern
                if hit.start() < covered or hit.start() < tried.get(identity, 0):
                    continue
                found = _match(rule, text, *hit.span())
                if found is not None:
                    tried[identity] = found.end("secret")
                    if _is_random(found["secret"], rule):
                        covered = found.end("secret")
                        yield _marked(rule.kind, found)
        if has_jwt:
            yield from (_marked("json-web-token", found) for found in _jwt.finditer(text, start, end))


def _overlapping(words: re.Pattern[bytes], text: bytes, start: int, end: int) -> Iterator[re.Match[bytes]]:
    """Yield the matches in a part of a text. One may begin in another: `api_` in the `napi_` of an escaped line."""
    while (hit := words.search(text, start, end)) is not None:
        yield hit
        start = hit.start() + 1


def _match(rule: _Rule, text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the match of a rule with a word at that position."""
    place = end if rule.context else start - rule.back
    return _compiled(rule.pattern, rule.context).match(text, place) if place >= 0 else None


def _is_random(secret: str, rule: _Rule) -> bool:
    if rule.context and not any(map(str.isdigit, secret)):
        return False
    return not rule.entropy or _entropy(secret) > rule.entropy


def _marked(kind: str, found: re.Match[str]) -> SecretSpan:
    digest = sha256(found["secret"].replace("\\/", "/").encode("utf-8", "replace")).hexdigest()[:8]
    return SecretSpan(*found.span("secret"), kind, f"<redacted:{kind}:{digest}>")


def _entropy(text: str) -> float:
    """Return the Shannon entropy in bits a character."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * log2(share) for share in shares)


def _special_spans(text: str, lowered: bytes) -> Iterator[SecretSpan]:
    """Yield the secrets that no rule describes, after a quick check for their requirements."""
    if b"private key" in lowered:
        yield from _private_key_spans(text)
    if b"private-lines: " in lowered:
        yield from (SecretSpan(*found.span("secret"), "private-key") for found in _putty_lines.finditer(text))
    if b"basic " in lowered:
        for found in _basic.finditer(text):
            if _is_basic(found["secret"]):
                yield SecretSpan(*found.span("secret"), "basic-credentials")
    if b"://" in lowered and b"@" in lowered:
        yield from (SecretSpan(*found.span("secret"), "url-password") for found in _url_password.finditer(text))
    yield from _parameter_spans(text, lowered)


def _parameter_spans(text: str, lowered: bytes) -> Iterator[SecretSpan]:
    """Yield the secrets of queries and forms."""
    if b"form-data; name=" in lowered:
        yield from (SecretSpan(*found.span("secret"), "query-secret") for found in _form_field.finditer(text))
    signs = _encoded_sign.sub(b"=", lowered) if b"3d" in lowered else lowered
    if any(part.endswith(_QUERY_ENDS) for part in signs.split(b"=")):
        yield from (SecretSpan(*found.span("secret"), "query-secret") for found in _query_secret.finditer(text))


def _private_key_spans(text: str) -> Iterator[SecretSpan]:
    """Yield private keys: to their last line, or without one, as far as their lines go."""
    covered, end = 0, None
    for head in _private_key.finditer(text):
        if head.start() < covered:
            continue
        if end is None or end.start() < head.end():
            end = _private_key_end.search(text, head.end()) or _end_of_text.search(text)
            assert end is not None
        last = end.end() if end[0] and end.start() - head.end() <= _PRIVATE_KEY_CHARS else None
        lines = _private_key_lines.match(text, head.end()) if last is None else None
        covered = last or (lines.end() if lines else 0)
        if covered:
            secret = text[head.start() : covered]
            digest = sha256(secret.replace("\\/", "/").encode("utf-8", "replace")).hexdigest()[:8]
            yield SecretSpan(head.start(), covered, "private-key", f"<redacted:private-key:{digest}>")


def _is_basic(text: str) -> bool:
    """Return whether this is a user and a password in base64."""
    try:
        decoded = b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return False
    return ":" in decoded and decoded.isprintable()


@cache
def _all_rules() -> list[_Rule]:
    data = files("offbook.recording.redact").joinpath("gitleaks_rules.json").read_bytes()
    return [*_OWN_RULES, *decode(data, _Rules).rules]


@cache
def _word_index() -> tuple[re.Pattern[bytes], dict[bytes, list[_Rule]]]:
    """Return a pattern for the words of all rules, longest first, and the rules of each.

    A word also finds the shorter words that it begins with.
    """
    by_word: dict[bytes, list[_Rule]] = {_JWT_WORD: []}
    for rule in _all_rules():
        for word in rule.words:
            by_word.setdefault(word.encode(), []).append(rule)
    beginnings = {word: [word[:end] for end in range(1, len(word) + 1) if word[:end] in by_word] for word in by_word}
    return re.compile(_either(by_word)), {
        word: [rule for beginning in found for rule in by_word[beginning]] for word, found in beginnings.items()
    }


def _either(words: Iterable[bytes]) -> bytes:
    """Return a pattern of any of the words, which tries each first letter once."""
    by_letter: dict[bytes, list[bytes]] = {}
    for word in sorted(words):
        by_letter.setdefault(word[:1], []).append(word[1:])
    ends_here = by_letter.pop(b"", None)
    branches = [re.escape(letter) + _either(rest) for letter, rest in by_letter.items()]
    if not branches:
        return b""
    return b"(?:" + b"|".join(branches) + b")" + (b"?" if ends_here else b"")


@cache
def _compiled(pattern: str, context: bool) -> re.Pattern[str]:
    if context:
        return re.compile(rf"{_BETWEEN}(?P<secret>{pattern})(?![\w+/=-])", re.ASCII)
    is_free = pattern.startswith(("/", "_", "(?<="))
    return re.compile(rf"{'' if is_free else _START}(?P<secret>{pattern})", re.ASCII)
