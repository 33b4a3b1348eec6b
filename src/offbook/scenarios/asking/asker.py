"""A model that is asked for JSON, and told once if its answer is not what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from offbook.errors import UnfitAnswerError
from offbook.messages import JsonObject, Response
from offbook.providers.provider import Provider
from offbook.scenarios.asking.answer import UnfitError, read_answer

T = TypeVar("T")


class Question(Struct, frozen=True):
    """What is asked: the standing instructions, the case at hand, and the keys by which an answer is known."""

    instructions: str
    case: str
    keys: frozenset[str]
    step_id: str

    def messages(self) -> list[JsonObject]:
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": self.case}]


class Asker:
    """Asks `model`, through `provider`. What is None is left to the provider."""

    def __init__(
        self, provider: Provider, model: str, *, temperature: float | None = None, max_tokens: int | None = None
    ) -> None:
        self._provider, self._model = provider, model
        self._temperature, self._max_tokens = temperature, max_tokens

    async def ask(self, question: Question, read: Callable[[JsonObject], T]) -> T:
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
        except UnfitError as error:
            messages += _nudge(response, str(error))
        response = await self._complete(messages, question.step_id)
        try:
            return read(read_answer(response.content, question.keys))
        except UnfitError as error:
            raise UnfitAnswerError(str(error), raw=response.content) from None

    async def _complete(self, messages: list[JsonObject], step_id: str) -> Response:
        return await self._provider.complete(
            messages, self._model, temperature=self._temperature, max_tokens=self._max_tokens, step_id=step_id
        )


def _nudge(response: Response, reason: str) -> list[JsonObject]:
    said = [{"role": "assistant", "content": response.content}] if response.content.strip() else []
    told = f"Your answer cannot be used: {reason}. Answer again, with the one JSON object that was asked for alone."
    return [*said, {"role": "user", "content": told}]
