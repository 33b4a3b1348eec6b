"""How tables are printed: as rich prints them, with or without it."""

import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from offbook.cli.output.console import echo, echo_json, print_table, print_total

COLUMNS = ("key", "tokens", "answer")
cells = st.text("abc XYZ.…·ä日\n🙂", max_size=12) | st.text("long ", min_size=150, max_size=220)
rows = st.lists(st.tuples(cells, cells, cells), max_size=4)

ON_A_TERMINAL = """
from offbook.cli.output.console import print_table, print_total
print_table(("key", "answer"), [("a", "one two three four")], numbers=(0,))
print_total("1 exchange")
"""


def printed_by(function, *arguments, **options):
    """What a function prints to a stdout that is not a terminal."""
    with redirect_stdout(StringIO()) as stdout:
        function(*arguments, **options)
    return stdout.getvalue()


def printed_by_rich(table):
    return printed_by(lambda: Console(width=200, highlight=False, markup=False, emoji=False).print(table))


@given(rows)
def test_a_table_looks_as_if_rich_had_printed_it(rows):
    table = Table(*COLUMNS, box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for row in rows:
        table.add_row(*row)
    assert printed_by(print_table, COLUMNS, rows, numbers=(1,)) == printed_by_rich(table)


@given(cells)
def test_a_total_looks_as_if_rich_had_printed_it(text):
    assert printed_by(print_total, text) == printed_by_rich(text)


def test_text_is_no_markup():
    assert printed_by(print_table, ("key",), [("[bold]a[/bold] :smile:",)]).splitlines()[1] == "[bold]a[/bold] :smile:"


def shown_on_a_terminal(*, columns, **environment):
    main, secondary = os.openpty()
    settings = {"COLUMNS": str(columns), "TERM": "xterm"} | environment
    subprocess.run([sys.executable, "-c", ON_A_TERMINAL], stdout=secondary, env=os.environ | settings, check=True)
    os.close(secondary)
    with os.fdopen(main, "rb") as terminal:
        return terminal.read1(10_000).decode().replace("\r\n", "\n")


def test_a_terminal_shows_names_in_bold_and_totals_dimmed():
    shown = shown_on_a_terminal(columns=80)
    assert shown == "\x1b[1mkey  answer            \x1b[0m\n  a  one two three four\n\x1b[2m1 exchange\x1b[0m\n"


def test_a_terminal_that_knows_no_styles_is_sent_none():
    assert (
        shown_on_a_terminal(columns=80, TERM="dumb") == "key  answer            \n  a  one two three four\n1 exchange\n"
    )


@pytest.mark.parametrize("columns", [12, 16])
def test_a_table_is_wrapped_to_the_width_of_the_terminal(columns):
    lines = re.sub(r"\x1b\[\d*m", "", shown_on_a_terminal(columns=columns)).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= columns


def test_a_table_with_very_many_rows_is_printed_without_wrapping():
    rows = [("é" * 300, str(number), "two\nlines") for number in range(1_001)]
    lines = printed_by(print_table, COLUMNS, rows, numbers=(1,)).splitlines()
    assert len(lines) == 1_002
    assert lines[-1] == f"{'é' * 300}    1000  two lines"


CONTROLS = "a\x1b[2Jb\u202ec\x9bd\x7fe\rf\U000e0041"


def test_no_text_or_table_controls_the_terminal(capsys):
    echo(f"{CONTROLS}\nnext")
    print_table(("name",), [(CONTROLS,)])
    print_total(CONTROLS)
    printed = capsys.readouterr().out
    assert "next" in printed
    assert all(letter.isprintable() or letter == "\n" for letter in printed)


@pytest.mark.parametrize("encode", [orjson.dumps, lambda value: orjson.dumps(value, option=orjson.OPT_INDENT_2)])
def test_json_means_the_same_and_controls_nothing(capsys, encode):
    document = {CONTROLS: ["中文 👩‍🚀", CONTROLS]}
    echo_json(encode(document).decode())
    printed = capsys.readouterr().out
    assert orjson.loads(printed) == document
    assert all(letter.isprintable() or letter == "\n" for letter in printed)


def test_a_table_has_nothing_that_a_terminal_would_act_on():
    assert "\x1b" not in printed_by(print_table, COLUMNS, [("\x1b[2J", "1", "x")], numbers=(1,))
