"""Command lines: read as a shell reads them, and refused where only a shell could act on them."""

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.workflow.builtin_tools.command_line import COMMAND_PATTERN, words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls -l notes", ["ls", "-l", "notes"]),
        ("wc -l 'my notes.txt'", ["wc", "-l", "my notes.txt"]),
        ('grep "a|b;c" x', ["grep", "a|b;c", "x"]),
        ("awk '{print $1}' x", ["awk", "{print $1}", "x"]),
        ("find . -name '*.py'", ["find", ".", "-name", "*.py"]),
        ("find . -name \\*.py", ["find", ".", "-name", "*.py"]),
        ('echo "it\'s" \'"quoted" `it`\'', ["echo", "it's", '"quoted" `it`']),
        ('echo "a \\$b"', ["echo", "a $b"]),
        ("git show HEAD~1 a=b {x,y} [z] #no", ["git", "show", "HEAD~1", "a=b", "{x,y}", "[z]", "#no"]),
        ('echo "a\\b" "c\\"d" "e\\\\f" "g\\\nh"', ["echo", "a\\b", 'c"d', "e\\f", "gh"]),
        ("echo 'a'\\''b'c\"d\"", ["echo", "a'bcd"]),
        ("echo '' \"\" \t x\n", ["echo", "", "", "x"]),
        ("", []),
    ],
)
def test_words_are_quoted_as_in_a_shell(line, expected):
    assert words(line) == expected


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("ls; rm x", ";"),
        ("ls | wc", "|"),
        ("ls && rm x", "&"),
        ("ls > x", ">"),
        ("wc < x", "<"),
        ("(ls)", "("),
        ("ls\nrm x", "\n"),
        ("ls 'a' 'b';rm x", ";"),
        ("ls \\; rm; x", ";"),
        ("echo 'a'\\''b' | wc", "|"),
    ],
)
def test_what_joins_commands_is_refused(line, sign):
    with pytest.raises(ValueError, match=re.escape(f"there is no shell, so {sign!r} does nothing")):
        words(line)


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("echo $HOME", "$"),
        ("echo $(id)", "$"),
        ('echo "$(id)"', "$"),
        ("echo `id`", "`"),
        ('echo "`id`"', "`"),
        ('echo "a\\\\$b"', "$"),
        ("ls *.py", "*"),
        ("ls ?.py", "?"),
    ],
)
def test_what_stands_for_something_else_is_refused(line, sign):
    with pytest.raises(ValueError, match=re.escape(f"{sign!r} stands for nothing else; put it in single quotes")):
        words(line)


@pytest.mark.parametrize("line", ["echo 'a", 'echo "a', "echo a\\"])
def test_a_line_that_does_not_end_is_refused(line):
    with pytest.raises(ValueError, match="the command line does not go on as it should"):
        words(line)


@given(st.lists(st.text()))
def test_whatever_is_quoted_comes_through(arguments):
    assert words(shlex.join(arguments)) == arguments


@pytest.mark.parametrize("name", ["ls", "python3.11", "g++", "apt-get", "7z", "_x"])
def test_a_command_is_a_bare_name(name):
    assert re.match(COMMAND_PATTERN, name)


@pytest.mark.parametrize("name", ["", "/bin/ls", "./run", "..", "-x", "ls -l", "a;b", "a$"])
def test_what_is_no_bare_name_is_no_command(name):
    assert not re.match(COMMAND_PATTERN, name)
