"""What a run shows on a terminal."""

import os
import pty
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO

import pytest
from rich.console import Console

from offbook.cli.main import main
from offbook.cli.output.progress import LiveProgress
from offbook.events import StepEnded, StepStarted
from offbook.workflow import parse_workflow
from tests.cli import flows

STREAMED = """\
name: story
config: {provider: mock, model: demo, responses_file: answers.json, latency_model: replay}
state: {items: [1, 2]}
steps:
  - {id: tell, type: llm_call, prompt: Tell, stream: true, output: story}
  - id: each
    type: loop
    over: state.items
    depends_on: [tell]
    steps: [{id: ask, type: llm_call, prompt: "{item}", output: out}]
  - {id: never, type: llm_call, prompt: x, depends_on: [each]}
"""


@pytest.fixture
def on_terminal(monkeypatch):
    """Run the command on a terminal of its own; gives its exit code and all that it showed."""

    def on_terminal(*arguments, columns=80, lines=24, encoding="utf-8", **env):
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm-256color", "COLUMNS": columns, "LINES": lines, **env}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(sys, "argv", ["offbook", *map(str, arguments)])
        control, terminal = pty.openpty()
        with ThreadPoolExecutor(1) as reader, open(terminal, "w", encoding=encoding) as screen:  # noqa: PTH123
            shown = reader.submit(read_all, control)
            with redirect_stdout(screen), redirect_stderr(screen), pytest.raises(SystemExit) as ended:
                main()
            screen.close()
            return ended.value.code or 0, shown.result().decode()

    return on_terminal


def read_all(control):
    """All that is written to a terminal until it is closed."""
    shown = b""
    with suppress(OSError):  # how Linux tells that the other side of a terminal is closed
        while piece := os.read(control, 65536):
            shown += piece
    os.close(control)
    return shown


def shown_by(*events, lines=24, texts=(), is_ended=True):
    """What is on a terminal of 60 columns after the events and texts, when the run has ended or before."""
    terminal, screen = (Console(file=StringIO(), width=60, height=lines) for _ in range(2))
    progress = LiveProgress(parse_workflow(STREAMED), console=terminal)
    with progress:
        for event in events:
            progress.emit(event)
        for step_id, text in texts:
            progress.on_text(step_id, text)
        if not is_ended:
            screen.print(progress)
    if is_ended:
        screen.print(progress)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def started(step, type="llm_call"):
    return StepStarted("story", step, type)


def ended(step, status="done", type="llm_call", **figures):
    return StepEnded("story", step, type, status, **figures)


def plain(shown):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


@pytest.fixture
def story(write):
    chunks = [[200.0 * n, piece] for n, piece in enumerate(["Once ", "upon\n", "a \x1b[2Jtime"], start=1)]
    content = "".join(piece for _, piece in chunks)
    tell = {"content": content, "chunks": chunks, "latency_ms": 800.0}
    write("answers.json", flows.recording({"tell": tell, "ask": {"fault": {"type": "http_error", "status_code": 400}}}))
    return write("flow.yaml", STREAMED)


def test_each_step_has_a_line_with_a_mark(on_terminal, greet):
    code, shown = on_terminal("replay", greet, "--recording", "run.json")
    assert code == 0
    assert "✓  hello  llm_call  5 tokens  0.00 s" in plain(shown)
    assert "✓  bye    llm_call" in plain(shown)
    assert "greet succeeded: 2 done" in plain(shown)
    assert "\x1b[32m" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")


def test_colours_are_left_out_if_the_environment_says_so(on_terminal, greet):
    _, shown = on_terminal("replay", greet, "--recording", "run.json", NO_COLOR="1")
    assert "✓" in shown
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)


def test_marks_are_plain_where_the_terminal_has_no_others(on_terminal, greet):
    code, shown = on_terminal("replay", greet, "--recording", "run.json", encoding="ascii")
    assert code == 0
    assert "+  hello" in plain(shown)


def test_a_running_step_shows_the_last_line_of_its_stream_and_nothing_a_terminal_could_obey(on_terminal, story):
    code, shown = on_terminal("run", story, "--real-time")
    assert code == 1
    assert "Once" in plain(shown)
    assert "a  [2Jtime" in shown
    assert "\x1b[2J" not in shown


def test_failed_steps_inside_others_stay_and_skipped_ones_are_marked(on_terminal, story):
    _, shown = on_terminal("run", story)
    last = plain(shown)
    assert "✗  each         loop" in last
    assert "✗  each[0].ask  llm_call  AllProvidersFailedError" in last
    assert "–  never" in last
    assert "each[1]" not in last


def test_a_step_that_was_cut_off_is_marked(on_terminal, greet, write):
    write("part.json", flows.recording({"hello": "Hi."}))
    code, shown = on_terminal("replay", greet, "--recording", "part.json")
    assert code == 3
    assert "–  bye" in plain(shown)
    assert "step 'bye'" in plain(shown)


def test_on_a_small_terminal_all_steps_are_shown_at_the_end(on_terminal, write):
    steps = "".join(f"  - {{id: s{n}, type: llm_call, prompt: x}}\n" for n in range(30))
    flow = write("flow.yaml", f"name: many\nconfig: {{provider: mock, model: m}}\nsteps:\n{steps}")
    code, shown = on_terminal("run", flow, lines=6)
    assert code == 0
    assert all(f"✓  s{n} " in plain(shown) for n in range(30))


def test_what_is_asked_for_as_json_is_json_on_a_terminal_too(on_terminal, greet):
    _, shown = on_terminal("replay", greet, "--recording", "run.json", "--json", columns=40)
    assert shown.startswith('{"workflow":"greet"')


def test_a_line_reports_how_far_its_step_is():
    events = [started("tell"), ended("tell", latency_s=1.5, prompt_tokens=3, cost_usd=0.01), started("each", "loop")]
    lines = shown_by(*events, is_ended=False)
    assert lines[0] == "✓  tell   llm_call  3 tokens  0.0100 $  1.50 s"
    assert lines[1].endswith("  each   loop")
    assert lines[2:] == ["·  never  llm_call", "1 done, 3 tokens, 0.0100 $"]


def test_streamed_text_belongs_to_the_step_that_runs_also_inside_others():
    events = [started("each", "loop"), started("each[0].ask")]
    lines = shown_by(*events, texts=[("ask", "one\ntwo "), ("ask", "three"), ("tell", "lost")], is_ended=False)
    assert lines[2].endswith("each[0].ask  llm_call  two three")
    assert "lost" not in "".join(lines)


def test_steps_inside_others_leave_when_they_are_done():
    lines = shown_by(started("each", "loop"), started("each[0].ask"), ended("each[0].ask"), is_ended=False)
    assert not any("each[0].ask" in line for line in lines)


def test_where_lines_do_not_fit_only_those_that_run_or_failed_are_shown():
    events = [ended("tell", "failed", error="StepError"), started("each", "loop")]
    lines = shown_by(*events, lines=4, is_ended=False)
    assert [line.split()[1] for line in lines[:-1]] == ["tell", "each"]
    assert len(shown_by(*events, lines=4)) == 3


def test_a_step_that_is_known_to_be_done_needs_no_start():
    assert shown_by(ended("tell"))[0].startswith("✓  tell")


def test_a_note_comes_above_the_steps_and_stays():
    terminal = Console(file=StringIO(), force_terminal=True, width=60, color_system=None)
    with LiveProgress(parse_workflow(STREAMED), console=terminal) as progress:
        progress.note("waiting for [pay] to end")
    shown = terminal.file.getvalue()
    assert shown.count("waiting for [pay] to end\n") == 1
    assert shown.index("waiting for [pay]") < shown.rindex("never")
