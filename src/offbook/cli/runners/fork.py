"""What `exec --live-from` adds to a replay: from a call on the real APIs answer, and the run is recorded anew."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from offbook.cli.output.console import print_message
from offbook.cli.runners.wire import WireArguments, WireTally
from offbook.errors import InputError
from offbook.recording.stores.locate import open_store
from offbook.text import pluralize


def with_fork(options: WireArguments, live_from: str | None, model: str) -> WireArguments:
    """Return the options of a run that leaves its recording at a call, if there is one like `call=4`.

    The new recording is `today.live-from-4.json` beside `today.json`, unless the options name another.

    Raises:
        InputError: the call cannot be read, options exclude each other, or the new recording has exchanges already.
    """
    if live_from is None:
        if model:
            raise InputError("--model requires --live-from", hint=_EXAMPLE)
        return options
    number = _call_number(live_from)
    if options.replay is None:
        raise InputError("--live-from requires --replay", hint=_EXAMPLE)
    _check(options)
    forked = replace(options, live_from=number, model=model, record=options.record or _beside(options.replay, number))
    _check_new(forked)
    return forked


_EXAMPLE = "offbook exec --replay PATH --live-from call=4 --model NAME -- COMMAND …"


def _call_number(text: str) -> int:
    found = re.fullmatch(r"call=([1-9][0-9]{0,8})", text.strip())
    if found is None:
        raise InputError(f"expected call=N, got {text!r}", source="--live-from", hint="--live-from call=4")
    return int(found[1])


def _check(options: WireArguments) -> None:
    excluded = {
        "--mcp": options.mcp is not None,
        "a folder of recordings": options.is_folder,
        "--lenient": options.is_lenient,
        "--default-response": options.default_response is not None,
        f"--record-mode {options.record_mode}": options.record_mode not in (None, "fresh"),
    }
    for what, is_given in excluded.items():
        if is_given:
            raise InputError(f"--live-from excludes {what}", hint="leave one of them out")


def _beside(recording: str, number: int) -> str:
    if "://" in recording:
        raise InputError("a fork needs a new recording", source="--live-from", hint="add --record PATH")
    return str(Path(recording).with_suffix(f".live-from-{number}.json"))


def _check_new(options: WireArguments) -> None:
    store = open_store(options.record or "")
    if store.identity == open_store(options.replay or "").identity:
        raise InputError(
            "a fork does not write to the recording that it follows", source="--record", hint="name another"
        )
    if options.record_mode is None and store.exists() and store.load().size:
        hint = "--record-mode fresh replaces it, and --record PATH writes another"
        raise InputError("the recording of the fork is there already", source=store.location, hint=hint)


def print_fork(options: WireArguments) -> None:
    """Say on stderr which calls are about to be live, if some are."""
    if options.is_forked:
        model = f" with {options.model}" if options.model else ""
        message = f"live from call {options.live_from} on{model}; the whole run is recorded in {options.record}"
        print_message("offbook: ", message, is_err=True)


def print_fork_outcome(options: WireArguments, tally: WireTally) -> None:
    """Say on stderr what was replayed, what was live, and what that has cost."""
    if options.is_forked:
        served, live = tally.totals.outcomes["served"], tally.totals.outcomes["recorded"]
        parts = [f"{served:,} from {options.replay}", f"{live:,} live for ${tally.totals.cost_usd:.4f}"]
        message = f"{pluralize(served + live, 'answer')}: {', '.join(parts)}; recorded in {options.record}"
        print_message("offbook: ", message, is_err=True)
