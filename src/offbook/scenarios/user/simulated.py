"""A user whom a model plays."""

from __future__ import annotations

from collections.abc import Sequence

from offbook.errors import UnfitAnswerError, UserSimulationError
from offbook.messages import JsonObject
from offbook.providers.provider import Provider
from offbook.scenarios.asking import Asker, Question, as_data
from offbook.scenarios.asking.answer import UnfitError
from offbook.scenarios.asking.fields import flag_of, text_of
from offbook.scenarios.result import TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.user.move import UserMove
from offbook.scenarios.user.template import DEFAULT_TEMPLATE, user_prompt

STEP = "user"
_KEYS = frozenset({"message", "stop"})
_BEGIN = "The conversation has not begun. Write your first message; you cannot stop yet."
_GO_ON = "Write what you say next, or stop."


class SimulatedUser:
    """Plays the user of a scenario. They are told what was said, and nothing of the agent's tool calls.

    Args:
        provider, model: what plays the user. Each call has the step `user`, after `step_prefix`.
        template: what the model is told, in the place of DEFAULT_TEMPLATE; see `user_prompt`.
        temperature, max_tokens: left to the provider where None.
        step_prefix: tells the calls of one conversation from those of others in a recording.

    Raises:
        InputError: the template has a place that there is nothing for.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        scenario: Scenario,
        *,
        template: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        step_prefix: str = "",
    ) -> None:
        self._asker = Asker(provider, model, temperature=temperature, max_tokens=max_tokens)
        self._instructions = user_prompt(scenario, DEFAULT_TEMPLATE if template is None else template)
        self._step_id = f"{step_prefix}{STEP}"

    async def next(self, turns: Sequence[TurnRecord]) -> UserMove:
        """What the user says next, or that they stop, which they never do before they have said something.

        Raises:
            UserSimulationError: the model answered twice with something else.
            ProviderError: the call failed.
        """
        question = Question(self._instructions, _case(turns), _KEYS, self._step_id)
        try:
            return await self._asker.ask(question, _later_move if turns else _first_move)
        except UnfitAnswerError as error:
            raise UserSimulationError(error.reason, raw=error.raw, turn_index=len(turns)) from error


def _case(turns: Sequence[TurnRecord]) -> str:
    if not turns:
        return _BEGIN
    said = [{"you": turn.user, "agent": turn.agent} for turn in turns]
    return f"{as_data('conversation', said)}\n\n{_GO_ON}"


def _first_move(answer: JsonObject) -> UserMove:
    return _message(answer, problem="the conversation has not begun, so message must say something")


def _later_move(answer: JsonObject) -> UserMove:
    if not flag_of(answer, "stop"):
        return _message(answer, problem="message must say something, or stop must be true")
    return UserMove(None, is_done=True, goal_reached=flag_of(answer, "goal_reached"), reason=text_of(answer, "reason"))


def _message(answer: JsonObject, *, problem: str) -> UserMove:
    says = text_of(answer, "message")
    if not says:
        raise UnfitError(problem)
    return UserMove(says, reason=text_of(answer, "reason"))
