"""offbook recording verify: repeats recorded requests at the live APIs, and reports drift."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import AsJson, Recording, Upstreams
from offbook.errors import InputError
from offbook.text import format_usd, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offbook.providers.pricing import PriceTable
    from offbook.wire.proxy.verify import Verification, VerificationPlan


def verify(
    file: Recording,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the calls without asking.")] = False,
    only: Annotated[
        list[str], typer.Option("--only", metavar="call=N", help="Only this call of the recording. Repeatable.")
    ] = [],  # noqa: B006
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="USD", help="Stop before spending more US dollars.")
    ] = None,
    upstream: Upstreams = [],  # noqa: B006
    header: Annotated[
        list[str], typer.Option("--header", metavar="NAME=VALUE", help="A header for each request. Repeatable.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Repeat the recorded calls at the live APIs, and report drift.

    Sends each recorded model call again, with the SDKs' keys and addresses from the environment, after it has shown the
    cost and asked. Compares kind, tool calls, finish reason, fields, model, tokens and cost, and embeddings by
    direction. Different wording is counted, but is no drift. Skipped calls are listed. The recording is not changed.

    Exits with 1 if an answer has drifted, an API has failed, or the budget was
    too small for all calls; with 2 on bad input.

    [bold]Examples[/bold]

      offbook recording verify runs/today.json

      offbook recording verify runs/today.json --only call=3 --yes

      offbook recording verify runs/today.json --budget 0.50 --yes --json
    """
    import asyncio
    import os

    from offbook.cli.runners.wire import parse_upstreams
    from offbook.providers.pricing import PriceTable
    from offbook.recording.redact.rules import redactor_in_force
    from offbook.recording.stores.locate import open_store
    from offbook.vendors import keys_from_environment
    from offbook.wire.proxy.upstream import Upstreams as UpstreamTable
    from offbook.wire.proxy.verify import Verifier, plan_verification

    if budget is not None and not budget >= 0:
        raise InputError(f"{budget:g} is not an amount of money", source="--budget", hint="use 0 or more US dollars")
    prices, numbers = PriceTable.default(), _call_numbers(only)
    plan = plan_verification(open_store(file).load(), prices=prices, only=numbers)
    _check_plan(plan, numbers, file)
    keys, urls = keys_from_environment(os.environ), parse_upstreams(upstream, os.environ)
    verifier = Verifier(
        UpstreamTable(urls, keys=keys, clients_use_own_key=True),
        prices=prices,
        redactor=redactor_in_force(),
        budget_usd=budget,
        headers=dict(map(_parse_header, header)),
    )
    verifier.check(plan)
    _confirm(_describe_plan(plan, prices, budget), is_confirmed=yes)
    found = asyncio.run(verifier.run(plan))
    _print(found, as_json=as_json)
    if not found.is_same:
        raise typer.Exit(1)


def _call_numbers(only: Iterable[str]) -> list[int]:
    matches = {line: re.fullmatch(r"call=([1-9][0-9]{0,8})", line.strip()) for line in only}
    for line, match in matches.items():
        if match is None:
            raise InputError(f"expected call=N, got {line!r}", source="--only", hint="--only call=3")
    return [int(match[1]) for match in matches.values() if match is not None]


def _parse_header(line: str) -> tuple[str, str]:
    name, separator, value = line.partition("=")
    if not separator or not re.fullmatch(r"[A-Za-z0-9-]+", name) or not value.isascii() or not value.isprintable():
        raise InputError(f"expected NAME=VALUE, got {name!r}", source="--header", hint="--header anthropic-beta=…")
    return name, value


def _check_plan(plan: VerificationPlan, numbers: list[int], file: str) -> None:
    missing = set(numbers) - {call.number for call in plan.calls} - {left.number for left in plan.left_out}
    if missing:
        raise InputError(f"there is no call {min(missing)}", source=file, hint=f"offbook recording show {file}")
    if not plan.calls:
        reasons = "; ".join(dict.fromkeys(each.reason for each in plan.left_out)) or "the recording is empty"
        what = f"no call of {pluralize(len(plan.left_out), 'exchange')} can be made again"
        raise InputError(f"{what}: {reasons}", source=file)


def _describe_plan(plan: VerificationPlan, prices: PriceTable, budget: float | None) -> str:
    priced = [(provider, model) for provider, model in plan.models if provider not in prices.free_providers]
    unpriced = [model for provider, model in priced if prices.find(model, provider=provider) is None]
    cost = f"about ${_usd(plan.cost_usd)}" + (f", and what {', '.join(unpriced)} costs" if unpriced else "")
    parts = [f"{pluralize(len(plan.calls), 'call')} to {', '.join(plan.vendors)}", f"{plan.tokens:,} tokens", cost]
    parts += [f"at most ${budget:g}"] if budget is not None else []
    parts += [f"{pluralize(len(plan.left_out), 'exchange')} left out"] if plan.left_out else []
    return "; ".join(parts)


def _confirm(what: str, *, is_confirmed: bool) -> None:
    """Announce the calls, and ask for confirmation on a terminal, unless it was given.

    Raises:
        InputError: there is no terminal, or the answer is no.
    """
    import sys

    from offbook.cli.output.console import echo, print_message

    print_message("offbook: ", f"verify makes {what}", is_err=True)
    if is_confirmed:
        return
    is_asked = sys.stdin.isatty()
    if is_asked:
        echo("Make these calls? [y/N]: ", err=True, nl=False)
    if not is_asked or sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("the calls were not confirmed: nothing was sent", hint="add --yes to make them")


def _print(found: Verification, *, as_json: bool) -> None:
    from collections import Counter

    import msgspec

    from offbook.cli.output.console import echo, echo_json, print_message

    if as_json:
        document = {"is_same": found.is_same, "cost_usd": found.cost_usd, "recorded_cost_usd": found.recorded_cost_usd}
        echo_json(msgspec.json.encode(document | msgspec.structs.asdict(found)))
        return
    for call in found.calls:
        if call.outcome in ("drifted", "failed"):
            print_message(f"{_name(call.number)}{call.about}: ", call.failure or "drifted")
            for each in call.differences:
                if each.kind != "text":
                    echo(f"  {each.place}: {each.recorded} → {each.live}")
    for line, count in Counter(f"{_name(each.number)}{each.about}: {each.reason}" for each in found.left_out).items():
        echo(f"left out: {line}" + (f" ({count} exchanges)" if count > 1 else ""))
    echo(f"{_counts(found)}; ${_usd(found.cost_usd)}, ${_usd(found.recorded_cost_usd)} when recorded")


def _usd(cost_usd: float) -> str:
    return format_usd(cost_usd) or "0"


def _name(number: int) -> str:
    return f"call {number}: " if number else ""


def _counts(found: Verification) -> str:
    from typing import get_args

    from offbook.wire.proxy.verify import Outcome

    counts = [f"{count:,} {outcome}" for outcome in get_args(Outcome) if (count := found.count(outcome))]
    counts += [f"{len(found.left_out):,} left out"] if found.left_out else []
    return f"{pluralize(len(found.calls), 'call')}: {', '.join(counts)}"
