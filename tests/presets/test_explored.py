"""A known program is explored where its own tools do no harm."""

import pytest

from offbook.errors import InputError
from offbook.explore.settings import ExploreSettings
from offbook.subjects.specs import ProgramSpec, open_subject
from tests.explore.runs import write_recording

BASH = {"content": "", "tool_calls": [{"id": "call_1", "name": "Bash", "arguments": {"command": "ls"}}]}


def opened(folder, **settings):
    recording = str(write_recording(folder / "run.json", {"any": BASH}))
    return open_subject(ProgramSpec(recording=recording, command=("claude", "-p", "x")), ExploreSettings(**settings))


def test_its_own_tools_do_not_change_the_folder_of_the_user_in_every_case(tmp_path):
    with pytest.raises(InputError, match="Claude Code would run Bash for real in every case") as refused:
        opened(tmp_path).__enter__()
    assert "--workdir" in refused.value.hint


@pytest.mark.parametrize("settings", [{"workdir": "template"}, {"runs_tools": True}])
def test_they_run_in_a_copy_or_if_the_user_allows_it(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "template").mkdir()
    with opened(tmp_path, **settings) as subject:
        assert subject.name == "claude -p x"
