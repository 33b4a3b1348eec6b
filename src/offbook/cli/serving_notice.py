"""What a server says when it is ready."""

from __future__ import annotations

import shlex

import msgspec
import typer

from offbook.cli.wire_options import WireOptions
from offbook.wire.serving import WireServer
from offbook.wording import printable


def print_notice(server: WireServer, options: WireOptions, *, api_key: str, is_json: bool) -> None:
    """Print where the server is, and which variables lead SDKs there: as text, or as one line of JSON."""
    url, variables = server.url, server.env
    if is_json:
        typer.echo(msgspec.json.encode({"url": url, "env": variables}).decode())
        return
    does = f"recording to {options.record}" if options.replay is None else f"answering from {options.replay}"
    typer.echo(f"{url}: {printable(does)}; Ctrl-C ends it")
    for name, value in variables.items():
        told = '"$OFFBOOK_API_KEY"' if api_key and value == api_key else shlex.quote(value)
        typer.echo(f"  export {name}={told}")
    typer.echo(f"a run of its own: {url}/s/NAME in the place of {url}, or the header x-offbook-session: NAME")
    typer.echo(f"what became of it: GET {url}/_offbook/sessions/NAME; DELETE forgets it")
