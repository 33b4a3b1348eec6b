"""The cast of a run: everybody whom a config declares, live, recorded or replayed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from offbook.config.agents import agent_of
from offbook.config.judge import judge_maker
from offbook.config.parts import PartName, open_parts
from offbook.config.plan import Plan
from offbook.config.recordings import RecordingFolder, recorder_at, replay_at
from offbook.config.schema import Config
from offbook.config.step_names import StepNames
from offbook.config.user import user_maker
from offbook.providers.provider import Provider
from offbook.recording.cursor import Unused
from offbook.recording.replay import MockProvider
from offbook.scenarios.runner import Cast, RunRules
from offbook.session import Live, Record, Replay


class OpenCast(Struct, frozen=True):
    """A cast that can be asked, what all of it asks, and what its replay has left."""

    cast: Cast
    provider: Provider
    replay: MockProvider | RecordingFolder | None = None

    def unused(self) -> list[Unused]:
        """The exchanges of a replayed recording that were never served."""
        return [] if self.replay is None else self.replay.unused()


@asynccontextmanager
async def open_cast(config: Config, plan: Plan, mode: Live | Record | Replay) -> AsyncIterator[OpenCast]:
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
            provider = await stack.enter_async_context(open_parts(config, names, _parts(config, plan)))
        if isinstance(mode, Record):
            provider = recorder_at(mode.path, provider, names)
        await stack.enter_async_context(provider)
        cast = Cast(
            {name: agent_of(config, name, provider) for name in plan.agents},
            provider,
            user_maker(config, [scenario for scenario in plan.scenarios if not scenario.is_scripted]),
            judge_maker(config, plan.scenarios),
        )
        yield OpenCast(cast, provider, replay)


def rules_of(config: Config) -> RunRules:
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


def _parts(config: Config, plan: Plan) -> Iterator[PartName]:
    """The parts that may ask a model."""
    if any(not scenario.is_scripted for scenario in plan.scenarios):
        yield "user", ""
    if config.judge is not None:
        yield "judge", ""
    for name in plan.agents:
        yield "agent", name
