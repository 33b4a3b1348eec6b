"""What the result of a run says, compared with that of the clean run: broken parts, missing parts, how they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from offbook.text import common_start, pluralize, shorten

_PLACEHOLDER = re.compile(r"(?<![\w'])(?:None|null|undefined|NaN|\[object Object\])(?![\w'])")
_ADMISSION = re.compile(
    r"\b(?:sorry|unfortunately|could ?n[o']t|can ?not|can't|unable|failed to|did ?n[o']t (?:work|go through|succeed)"
    r"|(?:(?:am|is|are|was|were) not|(?:is|are|was|were)n't) able to"
    r"|no (?:\w+ ){1,3}could be|do(?:es)?(?: not|n't) respond"
    r"|not (?:been |be )?(?:possible|done|sent|made|paid|(?:refund|book|cancel+|complet|process|deliver|charg|creat"
    r"|updat|chang|sav|plac|confirm|finish|publish|schedul|transferr|order|answer|succeed|perform|execut|issu|approv"
    r"|reserv|shipp)ed)"
    r"|nothing (?:was|has)|gave up|giving up|given up|gives up|try again|gave-up-[a-z]+)\b",
    re.IGNORECASE,
)
_BARE_ADMISSION = re.compile(
    r"\b(?:not available|unavailable|no answer|(?:has|have) failed)\b|^\W*(?:error|failed|failure)\b"
    r"|^\W*(?:pending|cancell?ed|rejected)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Words that also occur in error messages: they count only if no injected error is quoted."""

_SENTENCE_END = re.compile(r"[.!?;]+(?=\s|$)|\n")
_WORD = re.compile(r"[^\W\d_]{3,}")
_SMALL_WORD = re.compile("the|and|for|your?|our|its|ha(?:s|ve|d)|been|was|were|are|now|with|that|this|from")
_DOUBT = re.compile(
    r"\b(?:no(?! problem)|not|never|will|would|can|could|may|might|should|if|unless|whether|once|when|until|yet|before"
    r"|instead|tr(?:y|ied|ying)|want(?:ed)?|wish|asked|request(?:ed)?|attempt\w*|to be)\b|n't\b",
    re.IGNORECASE,
)
"""Words of sentences that claim nothing."""

_STATUS_FIELDS = frozenset(("ok", "success", "succeeded", "status", "state", "outcome", "error"))


def admits_failure(result: Any, clean: Any, marks: Sequence[str] = ()) -> bool:
    """Return whether a result says, unlike the clean one, that the run failed: in English words, or in a field.

    A result that has all words of the clean one, or claims the same in separate sentences, says that the run succeeded,
    whatever else it says. So does a program that prints the same, whatever it writes to files.
    """
    if _is_of_program(clean) and _is_of_program(result) and clean["stdout"].strip():
        result, clean = result["stdout"], clean["stdout"]
    if _denies(result, clean) or _flips_status(result, clean, marks):
        return True
    said, before = _result_text(result), _result_text(clean).casefold()
    if _has_claimed_field(result, clean, True) or (before.strip() and before.strip() in said.casefold()):
        return False
    patterns = (_ADMISSION,) if any(mark in said for mark in marks) else (_ADMISSION, _BARE_ADMISSION)
    found = (match.group().casefold() for pattern in patterns for match in pattern.finditer(said))
    return any(words not in before for words in found) and not _claims_the_same(said, before)


def _denies(result: Any, clean: Any) -> bool:
    """Return whether the result is false, or has something that is false and that the clean result says is true."""
    if not isinstance(result, dict) or not isinstance(clean, dict):
        return (result is False and bool(clean)) or _has_claimed_field(result, clean, False)
    common = [(result[name], clean[name]) for name in result if name in clean]
    return any(
        (now is False and before is True) or (isinstance(now, dict) and _denies(now, before)) for now, before in common
    )


def _has_claimed_field(result: Any, clean: Any, value: bool) -> bool:
    """Return whether a field that is named like a word of the clean text has that value: `{"reserved": false}`."""
    if not isinstance(result, dict) or not isinstance(clean, str):
        return False
    return any(result[name] is value and name.casefold() in _claim(clean) for name in result)


def _claims_the_same(said: str, before: str) -> bool:
    """Return whether each claim of the clean text stands in a sentence that admits and doubts nothing.

    Claims are compared by their words, without small ones and those with digits, such as ids.
    """
    doubts = (_ADMISSION, _BARE_ADMISSION, _DOUBT)
    plain = [each for each in _SENTENCE_END.split(said) if not any(doubt.search(each) for doubt in doubts)]
    claims = [claim for claim in map(_claim, _SENTENCE_END.split(before)) if claim]
    return bool(claims) and all(any(claim <= _claim(each) for each in plain) for claim in claims)


def _claim(sentence: str) -> set[str]:
    """Return the words of a sentence that say something."""
    return {word for word in map(str.casefold, _WORD.findall(sentence)) if not _SMALL_WORD.fullmatch(word)}


def _flips_status(result: Any, clean: Any, marks: Sequence[str]) -> bool:
    """Return whether a status field has another value, which is neither empty nor what a fault injected."""
    if not isinstance(result, dict) or not isinstance(clean, dict):
        return False
    names = [name for name in result if name.casefold() in _STATUS_FIELDS and isinstance(result[name], str | bool)]
    others = [name for name in names if result[name] != clean.get(name) and result[name] != ""]
    return any(name.casefold() == "error" or not any(mark in str(result[name]) for mark in marks) for name in others)


def broken_parts(result: Any, clean: Any, marks: Sequence[str]) -> Iterator[str]:
    """Describe what in a result is broken or missing: injected text, placeholders, a truncated or doubled part."""
    said = _result_text(result)
    if any(mark in said for mark in marks):
        yield f"what the fault injected stands in the result: {_around(said, marks)}"
    elif _placeholders(said) > _placeholders(_result_text(clean)):
        yield f"the result has a placeholder in place of data: {shorten(' '.join(said.split()), 80)}"
    elif is_truncated(result, clean):
        returned = "nothing" if is_empty_result(result) else "only a part of the result"
        yield f"it returned {returned}, and no error"
    elif _is_doubled(said, _result_text(clean)):
        yield f"the result repeats a part of itself: {shorten(' '.join(said.split()), 80)}"


def _around(text: str, marks: Sequence[str]) -> str:
    """Return the part of a text around the first mark in it, on one line."""
    text = " ".join(text.split())
    place = min(text.index(mark) for mark in marks if mark in text)
    return "…" + shorten(text[max(0, place - 40) :].strip(), 80) if place > 40 else shorten(text.strip(), 80)


def _placeholders(text: str) -> int:
    return len(_PLACEHOLDER.findall(text))


def _is_doubled(text: str, whole: str) -> bool:
    """Return whether a text is the whole one with a part of it repeated before or after it."""
    text, whole = text.strip(), whole.strip()
    if len(text) <= len(whole) or not whole:
        return False
    rest = text.removesuffix(whole) if text.endswith(whole) else text.removeprefix(whole)
    rest = rest.strip()
    return rest != text and len(rest) > 1 and rest in whole


def _result_text(value: Any) -> str:
    """Return all strings of a result, one per line, and other values as JSON. Of a program: its output and files."""
    if isinstance(value, str):
        return value
    if _is_of_program(value):
        return "\n".join(filter(None, (str(value["stdout"]), *map(_result_text, value.get("files", {}).values()))))
    if isinstance(value, dict):
        return "\n".join(_result_text(each) for each in value.values())
    if isinstance(value, list):
        return "\n".join(_result_text(each) for each in value)
    return msgspec.json.encode(value).decode()


def is_empty_result(result: Any) -> bool:
    """Return whether a result is empty. The result of a program is if it printed and wrote nothing."""
    if isinstance(result, str):
        return not result.strip()
    if _is_of_program(result):
        return is_empty_result(result["stdout"]) and not result.get("files")
    return result is None or (isinstance(result, dict | list) and not result)


def _is_of_program(result: Any) -> bool:
    return isinstance(result, dict) and {"exit", "stdout"} <= result.keys() <= {"exit", "stdout", "files"}


def is_truncated(result: Any, whole: Any) -> bool:
    """Return whether `result` is `whole` with parts missing: ends and lines of strings, items of lists, fields."""
    if result == whole or is_empty_result(whole):
        return False
    if is_empty_result(result):
        return True
    if isinstance(result, str) and isinstance(whole, str):
        return _is_truncated_text(result, whole)
    if isinstance(result, dict) and isinstance(whole, dict) and result.keys() <= whole.keys():
        return all(result[name] == whole[name] or is_truncated(result[name], whole[name]) for name in result)
    if isinstance(result, list) and isinstance(whole, list) and len(result) <= len(whole):
        rest = iter(whole)  # items may be missing or truncated; those that are left have the same order
        return all(any(item == each or is_truncated(item, each) for each in rest) for item in result)
    return False


def _is_truncated_text(text: str, whole: str) -> bool:
    """Return whether the text is the start of the whole, has some of its lines, or has the start of each line."""
    text, whole = text.strip(), whole.strip()
    if whole.startswith(text):
        return text != whole
    lines, whole_lines = text.splitlines(), whole.splitlines()
    if len(lines) < len(whole_lines):
        rest = iter(whole_lines)
        return all(line in rest for line in lines)
    pairs = list(zip(lines, whole_lines, strict=False))
    return len(lines) == len(whole_lines) and all(line.startswith(cut.strip()) for cut, line in pairs)


DIFFERENT_LINES, DIFFERENT_CHARS, CHARS_BEFORE = 4, 160, 40


def result_difference(result: Any, clean: Any) -> str:
    """Return the first few lines in which a result differs from the clean one, shortened."""
    before, after = (_lines(each) for each in (clean, result))
    if before == after:  # the text of a number, and the number
        before, after = ([msgspec.json.encode(each).decode()] for each in (clean, result))
    same = common_start(before, after)
    until = common_start(before[same:][::-1], after[same:][::-1])
    removed, added = (lines[same : len(lines) - until] for lines in (before, after))
    skipped = max(0, common_start(removed[0], added[0]) - CHARS_BEFORE) if removed and added else 0
    lines = [*_shown(removed, "-", skipped), *_shown(added, "+", skipped)]
    return "\n".join(["the result, without the fault (-) and with it (+):", *lines])


def _lines(result: Any) -> list[str]:
    if isinstance(result, str):
        return result.splitlines() or [""]
    return msgspec.json.format(msgspec.json.encode(result, order="sorted"), indent=2).decode().splitlines()


def _shown(lines: Sequence[str], sign: str, skipped: int) -> Iterator[str]:
    """Yield the first lines after a sign, the first line without what both have in common before they differ."""
    for place, line in enumerate(lines[:DIFFERENT_LINES]):
        rest = f"…{line[skipped + 1 :]}" if place == 0 and skipped else line
        yield f"  {sign}{shorten(rest, DIFFERENT_CHARS)}"
    if len(lines) > DIFFERENT_LINES:
        yield f"  {sign}… {pluralize(len(lines) - DIFFERENT_LINES, 'more line')}"
