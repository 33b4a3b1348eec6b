"""The content of a run's result compared with the clean one: claims, broken parts, differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from offbook.explore.effects import mask_volatile
from offbook.text import common_start, pluralize, shorten
from offbook.tools.failures import is_failed_result

_PLACEHOLDER = re.compile(r"(?<![\w'])(?:None|null|undefined|NaN|\[object Object\])(?![\w'])")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|[。！？；]|\n")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_RAW_ERROR = re.compile(
    r"\W*(?:[\w.]*(?:error|exception)\b|HTTP\b|\d{3}\b|no provider answered, in\b)|\s*[{<\[]", re.IGNORECASE
)
"""The beginnings of error texts of SDKs, of HTTP, and of offbook's own gateway."""


class Claim(Struct, frozen=True):
    """A sentence or a field of a result. Of a field, the text has its name: `order: 42`."""

    text: str
    is_field: bool = False


def claims_of(result: Any) -> list[Claim]:
    """Return the sentences and fields of a result, in comparable form.

    A program's are those of its output, or else of its files; a conversation's are the agent's.
    """
    return [each for each in _claims(_said(result), "") if each.text]


def _said(result: Any) -> Any:
    """Return the part of a result that speaks for the run."""
    if _is_of_program(result):
        return _parsed(result["stdout"]) if result["stdout"].strip() else result.get("files", {})
    if isinstance(result, dict) and result.keys() == {"ending", "turns"}:
        return [turn["agent"] for turn in result["turns"]]
    return _parsed(result) if isinstance(result, str) else result


def _parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself."""
    if not text.strip().startswith(("{", "[")):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _claims(value: Any, name: str) -> Iterator[Claim]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _claims(each, f"{name}{key}: ")
    elif isinstance(value, list):
        for each in value:
            yield from _claims(each, name)
    elif isinstance(value, str):
        for sentence in _SENTENCE_END.split(value):
            text = _comparable(sentence)
            yield Claim(f"{name.casefold()}{text}")
    else:
        yield Claim(f"{name}{msgspec.json.encode(value).decode()}".casefold(), is_field=True)


def sentences_of(result: Any) -> Iterator[str]:
    """Yield the sentences and fields of a result, without self-reported failures.

    Fields that are false, zero or empty say nothing either.
    """
    yield from _sentences(_said(result))


def _sentences(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if not is_failed_result({key: each}):
                yield from (f"{key}: {sentence}" for sentence in _sentences(each))
    elif isinstance(value, list):
        for each in value:
            yield from _sentences(each)
    elif isinstance(value, str):
        yield from (each for each in _SENTENCE_END.split(value) if each.strip() and not is_failed_result(each))
    elif value:
        yield msgspec.json.encode(value).decode()


def _comparable(sentence: str) -> str:
    return _SPACE.sub(" ", mask_volatile(sentence)).strip(" .!?;:,\"'*#-").casefold()


_SPECIAL = re.compile(r"([.^$*+?{}\[\]\\|()])")
_VARIABLE = re.compile(r"\S*\d\S*|\S*\b(?:fault|injected|gave-up)-\S*")
PATTERN_WORDS = 8


def pattern_like(result: Any, clean: Any) -> str:
    """Return a pattern of a result's first words that the clean one does not match, or "".

    Words with digits, and marks of faults, may differ in the next run.
    """
    for claim in claims_of(result) if result is not None else ():
        words = claim.text.split()[:PATTERN_WORDS]
        pattern = " ".join(r"\S+" if _VARIABLE.fullmatch(word) else _SPECIAL.sub(r"\\\1", word) for word in words)
        pattern = f"(?i){pattern}"
        if re.search(r"[^\W\d_]{3}", claim.text) and not re.search(pattern, result_text(clean)):
            return pattern
    return ""


def repeats_claims(result: Any, clean: Any, speaks: Callable[[Claim], bool]) -> bool:
    """Return whether a result has all of the clean one's informative claims, or all claims if none is informative."""
    said, claims = {each.text for each in claims_of(result)}, claims_of(clean)
    about = [each for each in claims if speaks(each)] or claims
    return bool(about) and all(each.text in said for each in about)


def denies_success(result: Any, clean: Any, marks: Sequence[str] = ()) -> bool:
    """Return whether a result's structure denies what the clean one says.

    It is false, or has the shape of a failed result, or a field of it is false that is true in the clean result. An
    injected error's text or body does not count: the run has passed it on.
    """
    result, clean = _said(result), _said(clean)
    is_failed = is_failed_result(result) and not is_failed_result(clean)
    is_raw = isinstance(result, str) or (isinstance(result, dict) and isinstance(result.get("error"), dict))
    has_shape = is_failed and not (is_raw and _has_mark(result, marks))
    return has_shape or _is_flipped(result, clean)


_GIVEN_UP = re.compile(r"\bgave-up-[a-z]+\b")


def is_given_up(result: Any) -> bool:
    """Return whether a result has the words of a model that has given up, as an exploration continues."""
    return _GIVEN_UP.search(result_text(result)) is not None


def _is_flipped(result: Any, clean: Any) -> bool:
    if isinstance(result, dict) and isinstance(clean, dict):
        return any(_is_flipped(result[name], clean[name]) for name in result if name in clean)
    if isinstance(result, list) and isinstance(clean, list) and len(result) == len(clean):
        return any(map(_is_flipped, result, clean))
    return result is False and clean is True


def takes_error_for_data(result: Any, clean: Any, marks: Sequence[str]) -> bool:
    """Return whether a result has an injected error where the clean one has data.

    It does if the error is the whole result, or is surrounded by the clean result's text. In its own words, a run may
    quote the error.
    """
    if isinstance(result, dict) and isinstance(clean, dict):
        marked = [name for name in result if _has_mark(result[name], marks)]
        return any(takes_error_for_data(result[name], clean.get(name, ""), marks) for name in marked)
    said, before = result_text(result).strip(), result_text(clean).strip()
    if _RAW_ERROR.match(said):
        return True
    words, clean_words = _WORD.findall(said), _WORD.findall(before)
    return bool(common_start(words, clean_words) or common_start(words[::-1], clean_words[::-1]))


def _has_mark(value: Any, marks: Sequence[str]) -> bool:
    return any(mark in result_text(value) for mark in marks)


def broken_parts(result: Any, clean: Any, marks: Sequence[str]) -> Iterator[str]:
    """Describe the broken or missing parts of a result: injected text, placeholders, a truncated or doubled part."""
    said = result_text(result)
    if any(mark in said for mark in marks):
        yield f"what the fault injected stands in the result: {_around(said, marks)}"
    elif _placeholders(said) > _placeholders(result_text(clean)):
        yield f"the result has a placeholder in place of data: {shorten(' '.join(said.split()), 80)}"
    elif is_truncated(result, clean):
        returned = "nothing" if is_empty_result(result) else "only a part of the result"
        yield f"it returned {returned}, and no error"
    elif _is_doubled(said, result_text(clean)):
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


def result_text(value: Any) -> str:
    """Return all strings of a result, one per line, and other values as JSON; a program's output and files."""
    if isinstance(value, str):
        return value
    if _is_of_program(value):
        return "\n".join(filter(None, (str(value["stdout"]), *map(result_text, value.get("files", {}).values()))))
    if isinstance(value, dict):
        return "\n".join(result_text(each) for each in value.values())
    if isinstance(value, list):
        return "\n".join(result_text(each) for each in value)
    return msgspec.json.encode(value).decode()


def is_empty_result(result: Any) -> bool:
    """Return whether a result is empty. A program's is if it printed and wrote nothing."""
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
    """Return the first few lines that differ from the clean result, shortened."""
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
    """Yield the first lines after a sign, the first one without the common start."""
    for place, line in enumerate(lines[:DIFFERENT_LINES]):
        rest = f"…{line[skipped + 1 :]}" if place == 0 and skipped else line
        yield f"  {sign}{shorten(rest, DIFFERENT_CHARS)}"
    if len(lines) > DIFFERENT_LINES:
        yield f"  {sign}… {pluralize(len(lines) - DIFFERENT_LINES, 'more line')}"
