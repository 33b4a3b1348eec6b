"""Opens the participants of a run (agents, simulated user, judge) live, recording or replaying."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from offbook.config.agents import build_agent, with_retry
from offbook.config.collect import RunPlan
from offbook.config.judge import judge_maker
from offbook.config.recordings import RecordingFolder, recorder_at, replay_at
from offbook.config.roles import RoleKey, StepNames, open_role_providers
from offbook.config.schema import Config, UserConfig
from offbook.errors import InputError
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.pipeline import Live, Record, Replay
from offbook.providers.provider import Provider
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.replay import MockProvider
from offbook.scenarios.runner import MakeUser, Participants, RunRules
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.users import DEFAULT_TEMPLATE, SimulatedUser, user_prompt


def user_maker(config: Config, scenarios: Iterable[Scenario]) -> MakeUser | None:
    """What plays the users of the scenarios; None if the config declares none.

    Raises:
        InputError: the template cannot be read, or has a place that there is nothing for.
    """
    declared = config.user
    if declared is None:
        return None
    template = _template(config, declared)
    for scenario in scenarios:
        _check_template(template, scenario, source=config.source if declared.template is None else declared.template)

    def make(scenario: Scenario, provider: Provider) -> SimulatedUser:
        return SimulatedUser(
            with_retry(provider, DEFAULT_RETRY),
            declared.model,
            scenario,
            template=template,
            temperature=declared.temperature,
            max_tokens=declared.max_tokens,
        )

    return make


def _template(config: Config, declared: UserConfig) -> str:
    if declared.template is None:
        return DEFAULT_TEMPLATE
    file = config.folder / declared.template
    try:
        return file.read_text("utf-8")
    except OSError as error:
        reason = f"{file}: {error.strerror}"
    except UnicodeDecodeError:
        reason = f"{file} is not UTF-8"
    raise InputError(reason, source=config.source, place="user.template")


def _check_template(template: str, scenario: Scenario, *, source: str) -> None:
    try:
        user_prompt(scenario, template)
    except InputError as error:
        raise InputError(error.reason, source=source, hint=error.hint) from error


class OpenParticipants(Struct, frozen=True):
    """A cast that can be asked, what all of it asks, and what its replay has left."""

    cast: Participants
    provider: Provider
    replay: MockProvider | RecordingFolder | None = None

    def unused(self) -> list[UnusedEntry]:
        """The exchanges of a replayed recording that were never served."""
        return [] if self.replay is None else self.replay.unused()


@asynccontextmanager
async def open_participants(
    config: Config, plan: RunPlan, mode: Live | Record | Replay
) -> AsyncIterator[OpenParticipants]:
    """The cast for a plan, in a mode, until the block ends.

    Models, endpoints, keys and variables are needed where it is live; a replay needs none of them. Recorded calls
    are kept under steps like `books a room/billing/1/user`, in place of those that were there before.

    Raises:
        InputError: something that the config names is missing or wrong.
    """
    names = StepNames((scenario.name, agent) for scenario, agent in plan.pairs)
    async with AsyncExitStack() as stack:
        replay = replay_at(mode.path, names) if isinstance(mode, Replay) else None
        provider: Provider
        if replay is not None:
            provider = replay
        else:
            provider = await stack.enter_async_context(open_role_providers(config, names, _model_roles(config, plan)))
        if isinstance(mode, Record):
            provider = recorder_at(mode.path, provider, names)
        await stack.enter_async_context(provider)
        cast = Participants(
            {name: build_agent(config, name, provider) for name in plan.agents},
            provider,
            user_maker(config, [scenario for scenario in plan.scenarios if not scenario.is_scripted]),
            judge_maker(config, plan.scenarios),
        )
        yield OpenParticipants(cast, provider, replay)


def run_rules(config: Config) -> RunRules:
    """How the config wants scenarios to be run."""
    run = config.run
    return RunRules(
        conversations=run.conversations,
        max_turns=run.max_turns,
        answer_timeout_s=run.answer_timeout_s,
        concurrency=run.concurrency,
        unmocked=run.unmocked,
        budget_usd=run.budget_usd,
        fail_on=run.fail_on,
        thresholds={} if config.judge is None else config.judge.thresholds,
    )


def _model_roles(config: Config, plan: RunPlan) -> Iterator[RoleKey]:
    """The parts that may ask a model."""
    if any(not scenario.is_scripted for scenario in plan.scenarios):
        yield "user", ""
    if config.judge is not None:
        yield "judge", ""
    for name in plan.agents:
        yield "agent", name
