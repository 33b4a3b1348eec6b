"""Where the recording of a test is."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.pytest_plugin.recording_place import default_recording, file_name, located
from tests.pytest_plugin.conftest import told

GREETS = """
def test_greets(offbook):
    offbook.live(Echo)
    greet(offbook)
"""


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("test_greets", "test_greets"),
        ("TestShop.test_greets", "TestShop.test_greets"),
        ("test_greets[gpt-4o]", "test_greets-gpt-4o"),
        ("test_greets[two words]", "test_greets-two-words"),
        ("test_greets[a/b]", "test_greets-a-b-1befc7"),
    ],
)
def test_a_recording_is_beside_its_test_under_a_name_fit_for_files(name, file):
    assert default_recording(Path("/tests/test_it.py"), name) == Path(f"/tests/recordings/test_it/{file}.json")


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_name_is_fit_for_a_file_and_unlike_others(one, other):
    names = [file_name(f"test_x[{each}]") for each in (one, other)]
    assert all(name.isascii() and not set(name) & set('/\\:*?"<>| \n') and len(name) < 120 for name in names)
    if one.replace(" ", "-") != other.replace(" ", "-"):
        assert names[0] != names[1]


def test_a_marker_names_a_recording_relative_to_the_folder_of_the_test():
    folder = Path("/tests")
    assert located("x.json", folder) == "/tests/x.json"
    assert located("/elsewhere/x.json", folder) == "/elsewhere/x.json"
    assert located("sqlite:///runs/x.db", folder) == "sqlite:////tests/runs/x.db"


def test_parametrised_tests_and_methods_have_recordings_of_their_own(project):
    project.test(
        """
class TestShop:
    @pytest.mark.parametrize("name", ["Ada", "Eve"])
    def test_greets(self, offbook, name):
        offbook.live(Echo)
        assert greet(offbook, name) == f"Hello {name}"
""",
        path="shop/test_shop.py",
    )
    project.record().assert_outcomes(passed=2)
    folder = project.folder / "shop/recordings/test_shop"
    assert sorted(file.name for file in folder.iterdir()) == [
        "TestShop.test_greets-Ada.json",
        "TestShop.test_greets-Eve.json",
    ]
    project.run().assert_outcomes(passed=2)


@pytest.mark.parametrize("recording", ["x.json", "sqlite:///runs/x.db"])
def test_a_marked_recording_is_used_wherever_it_is(project, recording):
    project.test(f"pytestmark = pytest.mark.offbook(recording={recording!r})\n{GREETS}")
    project.record().assert_outcomes(passed=1)
    assert (project.folder / recording.rpartition(":///")[2]).is_file()
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "1 call served" in told(result)


def test_tests_may_share_a_recording_from_the_first_time_on(project):
    mark = 'pytestmark = pytest.mark.offbook(recording="shared.json")\n'
    project.test(mark + GREETS + GREETS.replace("test_greets", "test_again").replace("live(Echo)", "live(Echo())"))
    project.record().assert_outcomes(passed=2)
    assert len(json.loads((project.folder / "shared.json").read_text())["greet"]) == 2
    project.run().assert_outcomes(passed=2)
