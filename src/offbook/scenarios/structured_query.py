"""Asks a model for a JSON object, reads its fields, and retries once if the answer is invalid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import orjson
from msgspec import Struct

from offbook.agent.rescue.call_format import UnreadableError, read_object
from offbook.errors import UnfitAnswerError
from offbook.messages import JsonObject, Response, result_text
from offbook.providers.provider import Provider

MAX_ANSWER_CHARS = 200_000
MAX_FALSE_STARTS = 50

_THINKING = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class InvalidAnswerError(ValueError):
    """An answer that cannot be used. The message tells the model why."""


def read_answer(text: str, keys: frozenset[str]) -> JsonObject:
    """Return the one JSON object in `text` that has one of `keys`; code fences, prose and thinking are skipped.

    Raises:
        InvalidAnswerError: there is no such object, or there are several different ones.
    """
    if len(text) > MAX_ANSWER_CHARS:
        raise InvalidAnswerError(f"it is longer than {MAX_ANSWER_CHARS} characters")
    fitting = [found for found in _objects(_THINKING.sub("", text)) if keys & found.keys()]
    if not fitting:
        raise InvalidAnswerError("it contains no JSON object in the requested format")
    if any(found != fitting[0] for found in fitting):
        raise InvalidAnswerError("it contains several JSON objects instead of one")
    return fitting[0]


def _objects(text: str) -> Iterator[JsonObject]:
    """Yield the outermost readable objects; stop at the fiftieth brace that does not start one."""
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
    """A prompt: system instructions, the user message, and the keys that identify an answer."""

    instructions: str
    content: str
    keys: frozenset[str]
    step_id: str

    def messages(self) -> list[JsonObject]:
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": self.content}]


class ModelQuery:
    """Asks `model` through `provider`. The provider's defaults apply where an option is None."""

    def __init__(
        self, provider: Provider, model: str, *, temperature: float | None = None, max_tokens: int | None = None
    ) -> None:
        self._provider, self._model = provider, model
        self._temperature, self._max_tokens = temperature, max_tokens

    async def ask(self, prompt: Prompt, read: Callable[[JsonObject], T]) -> T:
        """Return the result of `read` for the model's answer.

        `read` raises InvalidAnswerError for an object that it cannot use. Then the model is told why, and asked again
        once.

        Raises:
            UnfitAnswerError: the second answer is invalid too.
            ProviderError: the call failed.
        """
        messages = prompt.messages()
        response = await self._complete(messages, prompt.step_id)
        try:
            return read(read_answer(response.content, prompt.keys))
        except InvalidAnswerError as error:
            messages += _retry_messages(response, str(error))
        response = await self._complete(messages, prompt.step_id)
        try:
            return read(read_answer(response.content, prompt.keys))
        except InvalidAnswerError as error:
            raise UnfitAnswerError(str(error), raw=response.content) from None

    async def _complete(self, messages: list[JsonObject], step_id: str) -> Response:
        return await self._provider.complete(
            messages, self._model, temperature=self._temperature, max_tokens=self._max_tokens, step_id=step_id
        )


def _retry_messages(response: Response, reason: str) -> list[JsonObject]:
    answer = [{"role": "assistant", "content": response.content}] if response.content.strip() else []
    message = f"Your answer cannot be used: {reason}. Answer again with only the JSON object that was requested."
    return [*answer, {"role": "user", "content": message}]


def as_data(tag: str, value: object) -> str:
    """Return the value as JSON between tags. `<` and `>` are escaped: no text in it can close the tag."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = text.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<{tag}>\n{escaped}\n</{tag}>"


def json_or_text(value: object) -> object:
    """Return the value as JSON types, or as text if it has no JSON form."""
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
    """Return the str under `key`, or an empty one."""
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidAnswerError(f"{key} must be a string")
    return value.strip()


def bool_field(answer: JsonObject, key: str) -> bool:
    """Return the bool under `key`, or False."""
    value = answer.get(key)
    if isinstance(value, str):
        value = _FLAGS.get(value.strip().lower(), value)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidAnswerError(f"{key} must be true or false")
    return value


def int_field(answer: JsonObject, key: str, *, low: int, high: int) -> int:
    """Return the int under `key`, which must be from `low` to `high`."""
    value = answer.get(key)
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high or not number.is_integer():
        raise InvalidAnswerError(f"{key} must be an integer from {low} to {high}")
    return int(number)


def choice_field(answer: JsonObject, key: str, choices: Collection[C]) -> C:
    """Return the choice under `key`, regardless of case, and of spaces or dashes instead of underscores."""
    value = answer.get(key)
    normalized = _normalized(value) if isinstance(value, str) else ""
    for choice in choices:
        if _normalized(choice) == normalized:
            return choice
    raise InvalidAnswerError(f"{key} must be one of: {', '.join(choices)}")


def _normalized(text: str) -> str:
    return "_".join(text.replace("-", " ").replace("_", " ").lower().split())
