"""How a config wants the errors of a run grouped."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import Struct

from offbook.config.agent_calls import retrying
from offbook.config.schema import Config, GroupedBy
from offbook.errors import InputError, RecordingMismatchError
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.providers.provider import Provider
from offbook.scenarios.judge import group_by_label, group_errors
from offbook.scenarios.result import ConversationResult, ErrorGroup, SuiteResult

logger = logging.getLogger("offbook.judge")


class ErrorGrouping(Struct, frozen=True):
    """What groups the errors of a run. A run in which every conversation passed has no groups."""

    by: GroupedBy = "label"
    model: str = ""
    temperature: float | None = None

    async def groups_of(self, result: SuiteResult, provider: Provider) -> tuple[ErrorGroup, ...]:
        """The errors by cause, the gravest first. By `model`, it is asked once, with the step `judge.error_groups`.

        Groups fail nobody: where a replay has no answer for these errors, they are grouped by their labels, with a
        warning of one line.
        """
        conversations = _to_group(result)
        if self.by != "model" or not conversations:
            return self.free_groups_of(result)
        asked = retrying(provider, DEFAULT_RETRY)
        try:
            return await group_errors(asked, self.model, conversations, temperature=self.temperature)
        except RecordingMismatchError as error:
            reason = str(error).partition("\n")[0]
            logger.warning("errors are grouped by their labels, not by their causes: %s", reason)
            return self.free_groups_of(result)

    def free_groups_of(self, result: SuiteResult) -> tuple[ErrorGroup, ...]:
        """The groups for which no model is asked: by label, if any are wanted."""
        return () if self.by == "none" else group_by_label(_to_group(result))


def error_grouping(config: Config) -> ErrorGrouping:
    """What groups the errors of a run; by label unless the config says otherwise.

    Raises:
        InputError: a model is to group them, and there is none.
    """
    judge = config.judge
    if judge is None:
        return ErrorGrouping()
    if judge.group_errors == "model" and (judge.model is None or judge.provider is None):
        reason, hint = "there is no model to group errors by", "add provider and model"
        raise InputError(reason, source=config.source, place="judge.group_errors", hint=hint)
    return ErrorGrouping(judge.group_errors, judge.model or "", judge.temperature)


def _to_group(result: SuiteResult) -> Sequence[ConversationResult]:
    """All conversations of a run in which one failed; none of a run in which all passed."""
    held = [each for scenario in result.scenarios for each in scenario.conversations]
    return () if all(each.passed for each in held) else held
