"""offbook exec: runs any program, with its model calls answered from a recording, or recorded."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import with_options
from offbook.wire.settings import ExecArguments

SETTINGS = {"context_settings": {"allow_interspersed_args": False}}


@with_options(ExecArguments)
def execute(
    options: ExecArguments,
    given: ExecArguments,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ] = None,
) -> None:
    """Record or replay the model and tool calls of any program.

    Its calls to OpenAI, Anthropic, Gemini, Ollama, Bedrock, Azure and Vertex AI
    go to a local server, and its function tools are taken over. The program
    keeps its input, output, signals and exit code; offbook writes to stderr.

    Exits with 3 if the recording lacked an answer, a recorded tool ran for real, or the program made no call or reached
    none of its recorded MCP servers here; with 1 if a planned fault never fired, a call could not be recorded, no
    recorded call got an answer, or the tool calls differ from -o golden; with 124 at the time limit; with 2 on bad
    input; with 126 or 127 if the program cannot start.

    [bold]Examples[/bold]

      offbook exec --record run.json -- python my_agent.py

      offbook exec --replay run.json -- python my_agent.py

      offbook exec --replay run.json --fault 'call=3: timeout' -- node x.mjs

      offbook exec --replay run.json --fault 'tool=refund call=1: tool_lost' -- python my_agent.py

      offbook exec --replay run.json --live-from call=4 --model gpt-5-mini -- python my_agent.py

      offbook exec --replay run.json --mcp .mcp.json -- node x.mjs {mcp}

      offbook exec --intercept --record run.json -- some-agent-cli
    """
    from offbook.cli.runners.exec import run_program

    raise typer.Exit(run_program(command or [], options, given=given))
