"""Opens the participants of a run (agents, simulated user, judge) live, recording or replaying."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from offbook.config.agents import build_agent, with_retry
from offbook.config.discovery import RunPlan, load_object
from offbook.config.file import (
    AgentConfig,
    Config,
    ErrorGroupingMode,
    HandlerConfig,
    JudgeConfig,
    UserConfig,
    WorkflowConfig,
)
from offbook.config.recordings import RecordingFolder, recorder_at, replay_at
from offbook.config.roles import RoleKey, StepNames, agent_workflow, open_role_providers
from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.files import read_file
from offbook.messages import Request
from offbook.pipeline import Live, Record, Replay
from offbook.providers.provider import Provider
from offbook.scenarios.judge import (
    METRICS,
    Judge,
    Metric,
    builtin_metric,
    group_by_label,
    group_errors,
    metrics_by_name,
    python_metric,
)
from offbook.scenarios.result import ConversationResult, ErrorGroup, SuiteResult
from offbook.scenarios.runner import MakeJudge, MakeUser, Participants, RunRules
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.targets import (
    AGENT_STEP,
)
from offbook.scenarios.users import DEFAULT_TEMPLATE, SimulatedUser, user_prompt
from offbook.session.log import Log
from offbook.session.provider import MockProvider
from offbook.text import did_you_mean
from offbook.workflow.file.tree import endpoints_of

if TYPE_CHECKING:
    from offbook.config.mcp_servers import ConversationMcpServers

METRICS_PLACE = "judge.metrics"


class OpenParticipants(Struct, frozen=True):
    """The participants of a run, the provider of all their model calls, and the replay if there is one."""

    participants: Participants
    provider: Provider
    replay: MockProvider | RecordingFolder | None = None
    mcp: Sequence[ConversationMcpServers] = ()

    @property
    def log(self) -> Log:
        """The log of the replayed recordings: first those of models, then those of MCP servers by name."""
        of_mcp = sorted((log for servers in self.mcp for log in servers.logs()), key=lambda log: log.recordings)
        return Log.of([*([] if self.replay is None else [self.replay.log]), *of_mcp])

    @property
    def opened(self) -> list[str]:
        """The names of the replayed recordings in the log; "" for a single file."""
        of_tools = [name for servers in self.mcp for log in servers.logs() for name in log.recordings]
        if self.replay is None:
            return of_tools
        return [*(self.replay.opened if isinstance(self.replay, RecordingFolder) else [""]), *of_tools]

    def replays(self) -> dict[str, MockProvider]:
        """Return the opened recordings of a replay, by the name of the file if they are in a folder."""
        if isinstance(self.replay, RecordingFolder):
            return self.replay.mocks()
        return {} if self.replay is None else {"": self.replay}

    def open_recordings(self, plan: RunPlan) -> None:
        """Open the files of a folder for recording, to be shared by processes forked from now on."""
        if self.replay is None and isinstance(self.provider, RecordingFolder):
            self.provider.open_all(scenario.name for scenario in plan.scenarios)

    def note_used(self, file: str, ids: Iterable[int]) -> None:
        """Count exchanges of a replay as served that another process has served."""
        if isinstance(self.replay, RecordingFolder):
            self.replay.note_used(file, ids)
        elif self.replay is not None:
            self.replay.note_used(ids)


@asynccontextmanager
async def open_participants(
    config: Config, plan: RunPlan, mode: Live | Record | Replay, *, sink: Sink = NULL_SINK
) -> AsyncIterator[OpenParticipants]:
    """Open the participants of a plan until the block ends.

    A live run needs models, endpoints, keys and variables; a replay needs none of them. Calls are recorded with step
    ids such as `books a room/billing/1/user`, and the sink gets an event for each.

    Raises:
        InputError: something that the config names is missing or invalid.
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
            provider = recorder_at(mode.path, provider, names, mode=mode.record, sink=sink)
        await stack.enter_async_context(provider)
        if config.run.budget_usd is not None:
            _check_prices(config, plan, provider)
        mcp = {name: _open_mcp(path, mode, names, stack) for name, path in mcp_configs(config, plan).items()}
        participants = Participants(
            agents={name: build_agent(config, name, provider) for name in plan.agents},
            provider=provider,
            make_user=user_maker(config, [scenario for scenario in plan.scenarios if not scenario.is_scripted]),
            make_judge=judge_maker(config, plan.scenarios),
            mcp=mcp,
        )
        yield OpenParticipants(participants, provider, replay, list(mcp.values()))


def _check_prices(config: Config, plan: RunPlan, provider: Provider) -> None:
    """Check that the models that the config names for agents have prices, so that the budget can stop their calls."""
    for scenario, agent in plan.pairs:
        for model in _models_of(config, config.agents[agent]):
            try:
                provider.check_price(Request((), model, step_id=f"{scenario.name}/{agent}/1/{AGENT_STEP}"))
            except InputError as error:
                place = f"agent {agent}: budget_usd"
                raise InputError(error.reason, source=config.source, place=place, hint=error.hint) from error


def _models_of(config: Config, agent: AgentConfig) -> Iterable[str]:
    if isinstance(agent, WorkflowConfig):
        return [model for models in endpoints_of(agent_workflow(config, agent)).values() for model in models]
    return () if isinstance(agent, HandlerConfig) else (agent.model,)


def mcp_configs(config: Config, plan: RunPlan) -> dict[str, Path]:
    """Return the paths of the MCP configs of a plan's agents, by agent.

    An agent with MCP servers talks to other threads and processes: it runs in real time, even in a replay.
    """
    declared = {name: config.agents[name] for name in plan.agents}
    return {
        name: config.folder / agent.mcp
        for name, agent in declared.items()
        if isinstance(agent, HandlerConfig) and agent.mcp is not None
    }


def _open_mcp(
    path: Path, mode: Live | Record | Replay, names: StepNames, stack: AsyncExitStack
) -> ConversationMcpServers:
    from offbook.config.mcp_servers import ConversationMcpServers  # noqa: PLC0415 - few agents need MCP servers

    servers = ConversationMcpServers(path, mode, names)
    stack.callback(servers.close)
    return servers


def _model_roles(config: Config, plan: RunPlan) -> Iterator[RoleKey]:
    """Yield the roles that may call a model."""
    if any(not scenario.is_scripted for scenario in plan.scenarios):
        yield "user", ""
    if config.judge is not None:
        yield "judge", ""
    for name in plan.agents:
        yield "agent", name


def run_rules(config: Config) -> RunRules:
    """Return the rules of a run that the config declares."""
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


def user_maker(config: Config, scenarios: Iterable[Scenario]) -> MakeUser | None:
    """Return the function that makes the simulated users; None if the config declares no user.

    Raises:
        InputError: the template cannot be read, or has an unknown placeholder.
    """
    declared = config.user
    if declared is None:
        return None
    template = _template(config, declared)
    for scenario in scenarios:
        _check_template(template, scenario, source=config.source if declared.template is None else declared.template)

    def make(scenario: Scenario, provider: Provider) -> SimulatedUser:
        return SimulatedUser(
            with_retry(provider),
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
        return read_file(file).decode("utf-8")
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


def judge_maker(config: Config, scenarios: Iterable[Scenario]) -> MakeJudge | None:
    """Return the function that makes the judges of the scenarios; None if the config declares no judge.

    Raises:
        InputError: a metric is unknown, has no model, or has a threshold but is not judged.
    """
    declared = config.judge
    if declared is None:
        return None
    metrics = _metrics(config, declared)
    _check_thresholds(declared.thresholds, metrics, source=config.source, place="judge.thresholds")
    for scenario in scenarios:
        place = f"scenario {scenario.name!r}"
        _check_metrics(scenario, metrics, place=place)
        _check_thresholds(
            scenario.thresholds, _scenario_metrics(scenario, metrics), source=scenario.source, place=place
        )
    model = declared.model or ""

    def make(scenario: Scenario, provider: Provider) -> Judge:
        return Judge(
            with_retry(provider),
            model,
            _scenario_metrics(scenario, metrics).values(),
            temperature=declared.temperature,
            max_tokens=declared.max_tokens,
        )

    return make


def _metrics(config: Config, declared: JudgeConfig) -> dict[str, Metric]:
    names = tuple(METRICS) if declared.metrics is None else declared.metrics
    metrics = metrics_by_name((_metric(name, config) for name in names), source=config.source, place=METRICS_PLACE)
    by_model = next((metric for metric in metrics.values() if metric.prompt), None)
    if by_model is not None and (declared.model is None or declared.provider is None):
        reason = f"there is no model to judge {by_model.name}"
        raise InputError(reason, source=config.source, place="judge", hint="add provider and model")
    return metrics


def _metric(name: str, config: Config) -> Metric:
    if ":" in name:
        return _project_metric(name, config)
    try:
        return builtin_metric(name, source=config.source, place=METRICS_PLACE)
    except InputError as error:
        hint = f"{error.hint}; name your own as 'module:name'"
        raise InputError(error.reason, source=error.source, place=error.place, hint=hint) from None


def _project_metric(reference: str, config: Config) -> Metric:
    loaded = load_object(reference, source=config.source, place=METRICS_PLACE)
    if isinstance(loaded, Metric):
        return loaded
    if callable(loaded):
        return python_metric(reference.partition(":")[2], cast("Callable[..., float | str | bool]", loaded))
    reason = f"expected a metric or a function at {reference}, got {loaded!r}"
    raise InputError(reason, source=config.source, place=METRICS_PLACE)


def _scenario_metrics(scenario: Scenario, metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
    """Return the metrics that judge a scenario."""
    return metrics if scenario.metrics is None else {name: metrics[name] for name in scenario.metrics}


def _check_metrics(scenario: Scenario, metrics: Mapping[str, Metric], *, place: str) -> None:
    for name in scenario.metrics or ():
        if name not in metrics:
            hint = did_you_mean(name, metrics, kind="metrics of the config")
            raise InputError(f"{name!r} is not judged", source=scenario.source, place=place, hint=hint)


def _check_thresholds(
    thresholds: Mapping[str, float], metrics: Mapping[str, Metric], *, source: str, place: str
) -> None:
    for name in thresholds:
        if name not in metrics:
            hint = did_you_mean(name, metrics, kind="judged metrics")
            raise InputError(f"{name!r} has a threshold, but is not judged", source=source, place=place, hint=hint)


class ErrorGrouping(Struct, frozen=True):
    """The grouping of a run's errors. A run in which every conversation passed has no groups."""

    by: ErrorGroupingMode = "label"
    model: str = ""
    temperature: float | None = None

    async def groups_of(self, result: SuiteResult, provider: Provider) -> tuple[ErrorGroup, ...]:
        """Return the errors by cause, the worst first. Grouping by `model` is one call; see `group_errors`."""
        conversations = _conversations_to_group(result)
        if self.by != "model" or not conversations:
            return self.groups_without_model(result)
        return await group_errors(with_retry(provider), self.model, conversations, temperature=self.temperature)

    def groups_without_model(self, result: SuiteResult) -> tuple[ErrorGroup, ...]:
        """Return the errors by label, unless grouping is off."""
        return () if self.by == "none" else group_by_label(_conversations_to_group(result))


def error_grouping(config: Config) -> ErrorGrouping:
    """Return the grouping of a run's errors, by label unless the config says otherwise.

    Raises:
        InputError: the config groups errors by a model and declares none.
    """
    judge = config.judge
    if judge is None:
        return ErrorGrouping()
    if judge.group_errors == "model" and (judge.model is None or judge.provider is None):
        reason, hint = "there is no model to group errors", "add provider and model"
        raise InputError(reason, source=config.source, place="judge.group_errors", hint=hint)
    return ErrorGrouping(judge.group_errors, judge.model or "", judge.temperature)


def _conversations_to_group(result: SuiteResult) -> Sequence[ConversationResult]:
    """Return all conversations of a run with a failed one, or none if all passed."""
    conversations = [each for scenario in result.scenarios for each in scenario.conversations]
    return () if all(each.passed for each in conversations) else conversations
