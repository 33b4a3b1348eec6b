"""Lines about tools that are added to a config, which otherwise stays as it is."""

from pathlib import Path

import pytest

from offbook import InputError
from offbook.config.tool_functions import add_tool_lines, tool_table
from offbook.settings import configured_tools, find_project

LINES = {"refund": ['function = "shop:refund"', "# effect = true"]}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_config_is_created_if_there_is_none():
    assert add_tool_lines(None, LINES) == Path("offbook.toml")
    assert Path("offbook.toml").read_text() == '[tools.refund]\nfunction = "shop:refund"\n# effect = true\n'


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        (
            "offbook.toml",
            "# ours\n[explore]\ndeadline = 9",
            '# ours\n[explore]\ndeadline = 9\n\n[tools.refund]\nfunction = "shop:refund"\n# effect = true\n',
        ),
        (
            "offbook.toml",
            "[tools.look]\nread_only = true\n\n[tools . refund] # money\neffect = true\n",
            (
                "[tools.look]\nread_only = true\n\n[tools . refund] # money\n"
                'function = "shop:refund"\n# effect = true\neffect = true\n'
            ),
        ),
        (
            "offbook.toml",
            "[explore]\r\ndeadline = 9\r\n",
            '[explore]\r\ndeadline = 9\r\n\r\n[tools.refund]\r\nfunction = "shop:refund"\r\n# effect = true\r\n',
        ),
        (
            "pyproject.toml",
            '[project]\nname = "shop"\n[tool.offbook.explore]\ndeadline = 9\n',
            (
                '[project]\nname = "shop"\n[tool.offbook.explore]\ndeadline = 9\n\n'
                '[tool.offbook.tools.refund]\nfunction = "shop:refund"\n# effect = true\n'
            ),
        ),
    ],
)
def test_lines_are_added_to_the_table_or_as_a_new_one(file, before, after):
    Path(file).write_bytes(before.encode())
    add_tool_lines(find_project(), LINES)
    assert Path(file).read_bytes().decode() == after
    assert configured_tools(find_project())["refund"].function == "shop:refund"


@pytest.mark.parametrize("before", ["tools = {look = {read_only = true}}\n", "[tools]\nrefund = {effect = true}\n"])
def test_tools_in_another_form_are_refused_and_left(before):
    Path("offbook.toml").write_text(before)
    with pytest.raises(InputError, match=r"offbook\.toml: its tools are not tables of their own"):
        add_tool_lines(find_project(), LINES)
    assert Path("offbook.toml").read_text() == before


def test_a_name_that_is_no_bare_key_is_quoted():
    assert tool_table("shop.refund") == '[tools."shop.refund"]'
    add_tool_lines(None, {"shop.refund": LINES["refund"]})
    assert set(configured_tools(find_project())) == {"shop.refund"}
