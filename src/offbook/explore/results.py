"""The content of a run's result compared with the clean one: claims, named effects, broken parts, differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from offbook.explore.effects import mask_volatile
from offbook.explore.run import Run
from offbook.text import common_start, pluralize, shorten
from offbook.tools.effects import Effect
from offbook.tools.failures import is_failed_result

_PLACEHOLDER = re.compile(r"(?<![\w'])(?:None|null|undefined|NaN|\[object Object\])(?![\w'])")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_RAW_ERROR = re.compile(
    r"\W*(?:[\w.]*(?:error|exception)\b|HTTP\b|\d{3}\b|no provider answered, in\b)|\s*[{<\[]", re.IGNORECASE
)
"""The beginnings of error texts of SDKs, of HTTP, and of offbook's own gateway."""


class ResultClaim(Struct, frozen=True):
    """A sentence or a field of a result. Of a field, the text has its name: `order: 42`."""

    text: str
    is_field: bool = False


def claims_of(result: Any) -> list[ResultClaim]:
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


def _claims(value: Any, name: str) -> Iterator[ResultClaim]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _claims(each, f"{name}{key}: ")
    elif isinstance(value, list):
        for each in value:
            yield from _claims(each, name)
    elif isinstance(value, str):
        for sentence in _SENTENCE_END.split(value):
            text = _comparable(sentence)
            yield ResultClaim(f"{name.casefold()}{text}")
    else:
        yield ResultClaim(f"{name}{msgspec.json.encode(value).decode()}".casefold(), is_field=True)


def _comparable(sentence: str) -> str:
    return _SPACE.sub(" ", mask_volatile(sentence)).strip(" .!;:,\"'*#-。！；").casefold()  # a question is no claim


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
        pattern = "(?i)" + pattern.replace("'", ".")  # which a shell takes as it is
        if re.search(r"[^\W\d_]{3}", claim.text) and not re.search(pattern, result_text(clean)):
            return pattern
    return ""


def _repeats_claims(result: Any, clean: Any, speaks: Callable[[ResultClaim], bool]) -> bool:
    """Return whether a result has all of the clean one's informative claims, or all claims if none is informative."""
    said, claims = {each.text for each in claims_of(result)}, claims_of(clean)
    about = [each for each in claims if speaks(each)] or claims
    return bool(about) and all(each.text in said for each in about)


# Which effects a text names. Only names and values count: no list of phrases tells `charged` from `nothing was charged`
# in every language.

# Between the words of some scripts stands no space: `フライトLH-77は予約済み` has the word `LH-77`.
_UNSPACED = "\u0e00-\u0e7f\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af\uff66-\uff9f"
_SIGN = rf"[^\W{_UNSPACED}]"
_TOKEN = re.compile(rf"(?:{_SIGN}|-)*\d(?:{_SIGN}|-)*")
_NAME_PART = re.compile(r"[^\W_]+?(?=[A-Z]|_|$)")


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!{_SIGN}){re.escape(word)}(?!{_SIGN})", text, re.IGNORECASE) is not None


def _values_of(effect: Effect, *, min_digits: int = 2) -> set[str]:
    """Return the values of arguments that can stand in a text: words, numbers and short phrases."""
    values = (each for each in effect.arguments.values() if not isinstance(each, bool | dict | list | type(None)))
    return {str(each) for each in values if len(str(each)) >= (2 if isinstance(each, str) else min_digits)}


def _returned_ids(effect: Effect, run: Run) -> set[str]:
    """Return the words with digits in the tool's result for this effect."""
    results = (each.result for each in run.tools if each.tool == effect.tool and each.arguments == effect.arguments)
    return {token for text in results for token in _TOKEN.findall(text) if len(token) > 1}


def own_values(effect: Effect, run: Run, *, given: bool = False, min_digits: int = 2) -> set[str]:
    """Return the values of an effect that no other tool had or returned: only its arguments, if they are `given`."""
    others = [each for each in run.tools if each.tool != effect.tool]
    shared = result_text([[each.arguments, each.result] for each in others])
    own = _values_of(effect, min_digits=min_digits) | (set() if given else _returned_ids(effect, run))
    return {each for each in own if not _has_word(shared, each)}


_LETTERS = re.compile(rf"[^\W\d_{_UNSPACED}]+|[{_UNSPACED}]+")
_STEM_LENGTH = 4
"""The minimum common length of words on the same subject: `refund` and `refunded`."""


def _words_of(text: str) -> set[str]:
    """Return the words of a text, or of a tool's name, that are long enough to be informative."""
    words = [part for word in _LETTERS.findall(text) for part in (word, *_NAME_PART.findall(word))]
    return {word.casefold() for word in words if len(word) >= _STEM_LENGTH}


def names_effect(
    run: Run,
    effect: Effect,
    *,
    missing: Collection[Effect],
    standing: Collection[Effect],
    gives_up: Callable[[str], bool],
) -> bool:
    """Return whether a run that gave up names an effect, in its result or its error.

    It does by the tool's name, or by a value that only this effect has. It also does by a sentence with a word of the
    tool's name and a value of an argument, by a field of such a name that is true or a number, by just the word in a
    sentence that does not itself give up (`Nothing was charged` says the contrary), or by listing all `missing` effects
    of this tool, which implies the others. Words shared with missing effects do not count.
    """
    text = result_text(run.result) if run.error is None else f"{run.error.message}\n{result_text(run.result)}"
    name = "[ _-]?".join(map(re.escape, re.split("[ _-]", effect.tool.rpartition(".")[2])))
    has_name = re.search(rf"(?<!{_SIGN}){name}(?!{_SIGN})", text, re.IGNORECASE)
    if has_name or any(_has_word(text, each) for each in own_values(effect, run)):
        return True
    words = _words_of(effect.tool).difference(*(_words_of(each.tool) for each in missing))
    values = _values_of(effect, min_digits=1)
    for sentence in _sentences_of(run):
        said = _words_of(sentence.text)
        if sentence.is_field or any(_has_word(sentence.text, each) for each in values):
            if any(one[:_STEM_LENGTH] == other[:_STEM_LENGTH] for one in words for other in said):
                return True
        elif not said.isdisjoint(words) and not gives_up(sentence.text):
            return True
    known = result_text([each.arguments for each in standing])
    lacking = [own_values(each, run, min_digits=1) for each in missing if each.tool == effect.tool]
    is_listed = [any(_has_word(text, each) and not _has_word(known, each) for each in values) for values in lacking]
    return bool(is_listed) and all(is_listed)


def _sentences_of(run: Run) -> Iterator[ResultClaim]:
    """Yield the sentences and fields of what a run says, without self-reported failures.

    Fields that are false, zero or empty say nothing either.
    """
    if run.error is not None:
        yield ResultClaim(run.error.message)
    yield from _sentences(_said(run.result), "")


def _sentences(value: Any, name: str) -> Iterator[ResultClaim]:
    if isinstance(value, dict):
        for key, each in value.items():
            if not is_failed_result({key: each}):
                yield from _sentences(each, f"{name}{key}: ")
    elif isinstance(value, list):
        for each in value:
            yield from _sentences(each, name)
    elif isinstance(value, str):
        told = (each for each in _SENTENCE_END.split(value) if each.strip() and not is_failed_result(each))
        yield from (ResultClaim(f"{name}{each}") for each in told)
    elif value:
        yield ResultClaim(f"{name}{msgspec.json.encode(value).decode()}", is_field=True)


def claims_effect(result: Any, clean: Run, effect: Effect) -> bool:
    """Return whether a result has all that the clean run's says of an effect, or all that it says if nothing does.

    A sentence speaks of an effect if it has a value of its arguments. Sentences and fields do if they have a word of
    the tool's name, or of its result. A field with only an argument's value may merely repeat the request.
    """
    words = {part.casefold() for part in _NAME_PART.findall(effect.tool.rpartition(".")[2]) if len(part) > 2}
    asked, returned = _values_of(effect), _returned_ids(effect, clean)
    echoes = {each.casefold() for each in asked}

    def speaks(claim: ResultClaim) -> bool:
        if any(word.startswith(part) for word in re.findall(rf"{_SIGN}+", claim.text) for part in words):
            return True
        is_echo = claim.text.rpartition(": ")[2].strip('"') in echoes
        values = returned - asked if claim.is_field or is_echo else returned | asked
        return any(_has_word(claim.text, each) for each in values)

    return _repeats_claims(result, clean.result, speaks)


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


def broken_parts(result: Any, clean: Any, marks: Sequence[str], *, is_gap: bool = False) -> Iterator[str]:
    """Describe the broken or missing parts of a result: injected text, placeholders, a truncated or doubled part.

    If it `is_gap`, parts may honestly be missing.
    """
    said = result_text(result)
    if any(mark in said for mark in marks):
        yield f"what the fault injected stands in the result: {_around(said, marks)}"
    elif is_truncated(result, clean) and (is_gap or is_empty_result(result)):
        yield from () if is_gap else ["it returned nothing, and no error"]
    elif _placeholders(said) > _placeholders(result_text(clean)):
        yield f"the result has a placeholder in place of data: {shorten(' '.join(said.split()), 80)}"
    elif is_truncated(result, clean):
        yield "it returned only a part of the result, and no error"
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
