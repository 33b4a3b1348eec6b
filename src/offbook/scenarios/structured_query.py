"""Asks a model for a JSON object, reads its fields, and retries once if the answer does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import orjson
from msgspec import Struct

from offbook.agent.rescue.call_format import UnreadableError
from offbook.agent.rescue.json_value import read_object
from offbook.errors import UnfitAnswerError
from offbook.messages import JsonObject, Response
from offbook.providers.provider import Provider
from offbook.tools.result_text import result_text

MAX_ANSWER_CHARS = 200_000
MAX_FALSE_STARTS = 50

_THINKING = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class InvalidAnswerError(ValueError):
    """An answer that is not what was asked for. The message says why, for the model to mend it."""


def read_answer(text: str, keys: frozenset[str]) -> JsonObject:
    """The one object in `text` that has one of `keys`; code fences, prose and thinking aloud may stand around it.

    Raises:
        UnfitError: there is no such object, or there are several that differ.
    """
    if len(text) > MAX_ANSWER_CHARS:
        raise InvalidAnswerError(f"it is longer than {MAX_ANSWER_CHARS} characters")
    fitting = [found for found in _objects(_THINKING.sub("", text)) if keys & found.keys()]
    if not fitting:
        raise InvalidAnswerError("it holds no JSON object of the form that was asked for")
    if any(found != fitting[0] for found in fitting):
        raise InvalidAnswerError("it holds several JSON objects, and only one was asked for")
    return fitting[0]


def _objects(text: str) -> Iterator[JsonObject]:
    """The outermost objects that can be read, up to the fiftieth brace that starts none."""
    false_starts = 0
    start = text.find("{")
    while start >= 0 and false_starts < MAX_FALSE_STARTS:
        try:
            found, end = read_object(text, start)
        except UnreadableError:
            false_starts, end = false_starts + 1, start + 1
        else:
            yield found
        start = text.find("{", end)


T = TypeVar("T")


class Prompt(Struct, frozen=True):
    """What is asked: the standing instructions, the case at hand, and the keys by which an answer is known."""

    instructions: str
    case: str
    keys: frozenset[str]
    step_id: str

    def messages(self) -> list[JsonObject]:
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": self.case}]


class ModelQuery:
    """Asks `model`, through `provider`. What is None is left to the provider."""

    def __init__(
        self, provider: Provider, model: str, *, temperature: float | None = None, max_tokens: int | None = None
    ) -> None:
        self._provider, self._model = provider, model
        self._temperature, self._max_tokens = temperature, max_tokens

    async def ask(self, question: Prompt, read: Callable[[JsonObject], T]) -> T:
        """What `read` makes of the answer. It raises UnfitError for an object that says something else.

        A model whose answer is unfit is told why and asked again, once.

        Raises:
            UnfitAnswerError: the second answer was unfit too.
            ProviderError: the call failed.
        """
        messages = question.messages()
        response = await self._complete(messages, question.step_id)
        try:
            return read(read_answer(response.content, question.keys))
        except InvalidAnswerError as error:
            messages += _retry_messages(response, str(error))
        response = await self._complete(messages, question.step_id)
        try:
            return read(read_answer(response.content, question.keys))
        except InvalidAnswerError as error:
            raise UnfitAnswerError(str(error), raw=response.content) from None

    async def _complete(self, messages: list[JsonObject], step_id: str) -> Response:
        return await self._provider.complete(
            messages, self._model, temperature=self._temperature, max_tokens=self._max_tokens, step_id=step_id
        )


def _retry_messages(response: Response, reason: str) -> list[JsonObject]:
    said = [{"role": "assistant", "content": response.content}] if response.content.strip() else []
    told = f"Your answer cannot be used: {reason}. Answer again, with the one JSON object that was asked for alone."
    return [*said, {"role": "user", "content": told}]


def as_data(tag: str, value: object) -> str:
    """The value as JSON between tags. No text in the value can end it: there is no `<` or `>` in the JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = text.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<{tag}>\n{escaped}\n</{tag}>"


def json_or_text(value: object) -> object:
    """The value as JSON has it; what has no JSON as text."""
    if isinstance(value, str):
        return value
    text = result_text(value)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


C = TypeVar("C", bound=str)

_FLAGS = {"true": True, "false": False}


def text_field(answer: JsonObject, key: str) -> str:
    """The text under `key`, empty if there is none."""
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidAnswerError(f"{key} must be a text")
    return value.strip()


def bool_field(answer: JsonObject, key: str) -> bool:
    """The truth of `key`, false if nothing is said of it."""
    value = answer.get(key)
    if isinstance(value, str):
        value = _FLAGS.get(value.strip().lower(), value)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidAnswerError(f"{key} must be true or false")
    return value


def int_field(answer: JsonObject, key: str, *, low: int, high: int) -> int:
    """The whole number under `key`, from `low` to `high`."""
    value = answer.get(key)
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high or not number.is_integer():
        raise InvalidAnswerError(f"{key} must be a whole number from {low} to {high}")
    return int(number)


def choice_field(answer: JsonObject, key: str, choices: Collection[C]) -> C:
    """Which of `choices` stands under `key`, in whatever case and with spaces or dashes for its underscores."""
    value = answer.get(key)
    folded = _normalized(value) if isinstance(value, str) else ""
    for choice in choices:
        if _normalized(choice) == folded:
            return choice
    raise InvalidAnswerError(f"{key} must be one of: {', '.join(choices)}")


def _normalized(text: str) -> str:
    return "_".join(text.replace("-", " ").replace("_", " ").lower().split())
