"""The simulated user that a config declares."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.config.agent_calls import retrying
from offbook.config.schema import Config, UserConfig
from offbook.errors import InputError
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.providers.provider import Provider
from offbook.scenarios.runner import MakeUser
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.user import DEFAULT_TEMPLATE, SimulatedUser, user_prompt


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
        _check(template, scenario, source=config.source if declared.template is None else declared.template)

    def make(scenario: Scenario, provider: Provider) -> SimulatedUser:
        return SimulatedUser(
            retrying(provider, DEFAULT_RETRY),
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


def _check(template: str, scenario: Scenario, *, source: str) -> None:
    try:
        user_prompt(scenario, template)
    except InputError as error:
        raise InputError(error.reason, source=source, hint=error.hint) from error
