"""offbook recording approve: makes the tool calls of a recorded run the golden ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import AsJson, Recording

if TYPE_CHECKING:
    from offbook.scenarios.trajectory.golden import Approval


def approve(
    file: Recording,
    golden: Annotated[
        str | None,
        typer.Option(
            "--golden", metavar="PATH", help="The file of golden trajectories; by default next to the recording."
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Remove the variants that were approved before.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Approve nothing: exit with 1 if the run differs from the approved ones.")
    ] = False,
    list_variants: Annotated[
        bool, typer.Option("--list", help="Approve nothing: list the approved trajectories.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the tool calls of a recording the golden ones.

    The golden trajectory of runs/today.json is runs/today.golden: the model's tool calls with their arguments, without
    ids. Approving another run adds a variant, which is accepted as well. exec -o golden and pytest compare with it.

    [bold]Examples[/bold]

      offbook recording approve runs/today.json

      offbook recording approve runs/other.json --golden runs/today.golden

      offbook exec --replay runs/today.json -o golden=runs/today.golden -- python my_agent.py
    """
    from offbook.errors import InputError
    from offbook.scenarios.trajectory.golden import approve_recording, compare_recording

    if sum((replace, check, list_variants)) > 1:
        raise InputError("--replace, --check and --list exclude each other", hint="leave all but one out")
    if list_variants:
        _print_variants(file, golden, as_json=as_json)
    elif check:
        _print_difference(compare_recording(file, path=golden), as_json=as_json)
    else:
        _print_approval(approve_recording(file, path=golden, replaces=replace), as_json=as_json)


def _print_variants(file: str, golden: str | None, *, as_json: bool) -> None:
    import msgspec

    from offbook.cli.output.console import echo, echo_json
    from offbook.scenarios.trajectory.golden import golden_path, load_golden

    found = load_golden(golden_path(file) if golden is None else golden)
    if as_json:
        echo_json(msgspec.json.encode(found))
        return
    for number, variant in enumerate(found.variants, 1):
        source = f" ({variant.recording})" if variant.recording else ""
        echo(f"{number}: {variant.describe()}{source}")


def _print_difference(difference: str, *, as_json: bool) -> None:
    import msgspec

    from offbook.cli.output.console import echo, echo_json

    if as_json:
        echo_json(msgspec.json.encode({"is_approved": not difference, "difference": difference}))
    else:
        echo(difference or "as approved")
    if difference:
        raise typer.Exit(1)


def _print_approval(approval: Approval, *, as_json: bool) -> None:
    import msgspec

    from offbook.cli.output.console import echo, echo_json

    variants = approval.golden.variants
    if as_json:
        document = {"golden": approval.path, "added": approval.added is not None, "variants": len(variants)}
        echo_json(msgspec.json.encode(document))
    elif approval.added is None:
        echo(f"{approval.path}: approved already")
    else:
        described = variants[-1].describe()
        echo(f"{approval.path}: variant {approval.added}: {described}")
