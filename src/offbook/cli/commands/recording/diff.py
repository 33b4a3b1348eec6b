"""offbook recording diff: shows the differences between two recordings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import AsJson, Recording
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.recording.compare import RecordingChange, RuleProposal

_TITLES = {
    "removed": "only in the first",
    "added": "only in the second",
    "request": "different request",
    "answer": "different answer",
    "wire": "same answer, different bytes",
}


def diff(
    old: Recording,
    new: Recording,
    propose: Annotated[
        bool, typer.Option("--propose", help="Propose normalise rules that make the requests of both recordings equal.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write the proposed rules into both recordings, which then match.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the differences between two recordings, call by call.

    Exits with 1 if there is one. Record the same run twice, and --propose finds what differs; pass its rules
    to RecordingProvider(normalise=...), or let --write put them into the recordings.

    [bold]Examples[/bold]

      offbook recording diff before.json after.json

      offbook recording diff monday.json tuesday.json --propose

      offbook recording diff monday.json tuesday.json --propose --write
    """
    import msgspec

    from offbook.cli.output.console import echo_json, print_message
    from offbook.errors import InputError
    from offbook.recording import compare
    from offbook.recording.stores.locate import open_store

    if write and not propose:
        raise InputError("there are no rules to write", source="--write", hint="add --propose")
    stores = open_store(old), open_store(new)
    first, second = (store.load() for store in stores)
    changes = compare.compare_documents(first, second)
    proposal = compare.propose_rules(first, second) if propose else None
    if as_json:
        found = {"changes": changes} if proposal is None else {"changes": changes, "proposal": proposal}
        echo_json(msgspec.json.encode(found).decode())
    elif proposal is None:
        _print(changes)
    else:
        _print_proposal(proposal)
    if write and proposal is not None and (proposal.rules.ignore or proposal.rules.mask):
        for store in stores:
            store.update(partial(compare.add_rules, proposal.rules))
        print_message("written: ", f"these rules are in _meta of {old} and {new}", is_err=as_json)
    if changes:
        raise typer.Exit(1)


def _print(changes: list[RecordingChange]) -> None:
    from offbook.cli.output.console import echo, print_message

    for change in changes:
        print_message(f"{_change_name(change)}, call {change.position + 1}: {_TITLES[change.kind]}", "")
        if change.difference:
            echo(change.difference)
    echo(pluralize(len(changes), "difference") if changes else "no differences")


def _change_name(change: RecordingChange) -> str:
    from offbook.recording.format.keys import short_key

    if change.place or change.key.startswith("_tools"):
        return change.place or change.key
    return " → ".join(short_key(key) for key in (change.old_key, change.key) if key)


def _print_proposal(proposal: RuleProposal) -> None:
    from offbook.cli.output.console import echo

    rules = proposal.rules
    if not rules.ignore and not rules.mask:
        echo("no rules to propose")
    else:
        echo("NormaliseRules(")
        for name, values in (("ignore", rules.ignore), ("mask", rules.mask)):
            if values:
                echo(f"    {name}=({''.join(f'{value!r}, ' for value in values).rstrip()}),")
        echo(")")
    for path in proposal.unexplained:
        echo(f"not explained by a rule: {path}")
