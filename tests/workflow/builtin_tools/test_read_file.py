"""Reading files: those under the root, and nothing else however it is named or moved."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError, ToolFailureError, ToolRefusalError, ToolResolutionError
from offbook.workflow.builtin_tools import read_file
from tests.workflow.builtin_tools.calls import outcome_of, text_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A workflow's folder: data that may be read, and a secret beside it."""
    folder = tmp_path_factory.mktemp("flow")
    data = folder / "data"
    (data / "notes").mkdir(parents=True)
    (folder / "secret.txt").write_text("secret")
    (data / "hello.txt").write_text("grüß dich\n")
    (data / "notes/today.txt").write_text("rain")
    (data / "inside").symlink_to("notes/today.txt")
    (data / "notes_link").symlink_to("notes")
    (data / "outside").symlink_to("../secret.txt")
    (data / "absolute").symlink_to(folder / "secret.txt")
    (data / "up").symlink_to("..")
    (data / "round").symlink_to("round")
    (data / "gone").symlink_to("nowhere.txt")
    (data / "device").symlink_to("/dev/zero")
    os.mkfifo(data / "pipe")
    return folder


@pytest.fixture(scope="module")
def reader(folder):
    return read_file("read", root="./data", folder=folder)


def test_a_model_is_told_what_the_tool_does(reader):
    assert reader.spec.description == "Read a text file. Paths are relative to the folder that you may read."
    assert reader.spec.schema["properties"]["path"]["description"] == "the path of the file, like notes/today.txt"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("hello.txt", "grüß dich\n"),
        ("./hello.txt", "grüß dich\n"),
        ("notes/today.txt", "rain"),
        ("notes//today.txt", "rain"),
        ("inside", "rain"),
        ("notes_link/today.txt", "rain"),
        ("up/data/hello.txt", "grüß dich\n"),
    ],
)
def test_a_file_under_the_root_is_read(reader, path, text):
    assert text_of(reader, path=path) == text


@pytest.mark.parametrize(
    "path",
    [
        *("../secret.txt", "notes/../hello.txt", "..", "/etc/passwd", "//etc/passwd", "hello.txt\0", "bad\ud800name"),
        *("outside", "absolute", "up/secret.txt", "up", "device", "round", "round/x"),
        *("", ".", "notes", "notes/", "pipe", "notes_link"),
    ],
)
def test_whatever_leads_elsewhere_or_is_no_plain_file_is_refused(reader, folder, path):
    error = outcome_of(reader, path=path).error
    assert isinstance(error, ToolRefusalError)
    assert error.tool == "read"
    assert str(folder) not in str(error)


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        error = outcome_of(read_file("read", root=".", folder=tmp_path), path="socket").error
    assert isinstance(error, ToolRefusalError)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("helo.txt", "there is no 'helo.txt'; did you mean 'hello.txt'?"),
        ("notes/todya.txt", "there is no 'notes/todya.txt'; did you mean 'today.txt'?"),
        ("note/today.txt", "there is no 'note/today.txt'; did you mean 'notes'?"),
        ("notes/xyz", "there is no 'notes/xyz'; there are: today.txt"),
        ("hello.txt/x", "there is no 'hello.txt/x'"),
        ("gone", "there is no 'gone'; there are: "),
    ],
)
def test_a_file_that_is_not_there_is_reported_with_those_that_are(reader, path, message):
    error = outcome_of(reader, path=path).error
    assert isinstance(error, ToolResolutionError)
    assert str(error).startswith(message)


def test_a_file_of_more_than_a_megabyte_is_not_read(tmp_path):
    reader = read_file("read", root=".", folder=tmp_path)
    (tmp_path / "large.txt").write_text("x" * 1_000_000)
    assert len(text_of(reader, path="large.txt")) == 1_000_000
    (tmp_path / "large.txt").write_text("x" * 1_000_001)
    with pytest.raises(ToolFailureError, match=r"large\.txt is larger than 1000000 bytes"):
        text_of(reader, path="large.txt")


def test_what_is_no_text_is_reported(tmp_path):
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    with pytest.raises(ToolFailureError, match=r"image\.png is not UTF-8 text"):
        text_of(read_file("read", root=".", folder=tmp_path), path="image.png")


def test_a_mark_of_utf_8_is_no_part_of_the_text(tmp_path):
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert text_of(read_file("read", root=".", folder=tmp_path), path="marked.txt") == "hello"


def test_a_file_that_cannot_be_opened_is_reported(reader):
    with pytest.raises(ToolFailureError, match="cannot be read: File name too long"):
        text_of(reader, path="x" * 300)


@pytest.mark.parametrize("root", ["..", "/", "data/../..", "data/up/..", "/etc"])
def test_a_root_that_leaves_the_folder_is_refused(folder, root):
    with pytest.raises(InputError, match="leaves the folder of the workflow") as caught:
        read_file("read", root=root, folder=folder)
    assert caught.value.source == "tools.read"
    assert caught.value.place == "root"


def test_a_root_that_is_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "flow").mkdir()
    (tmp_path / "flow/data").symlink_to(tmp_path)
    with pytest.raises(InputError, match="data leaves the folder of the workflow"):
        read_file("read", root="data", folder=tmp_path / "flow")


@pytest.mark.parametrize("root", ["dta", "secret.txt"])
def test_a_root_that_is_no_folder_is_reported(folder, root):
    with pytest.raises(InputError, match=f"there is no folder {root} next to the workflow"):
        read_file("read", root=root, folder=folder)


@given(
    st.lists(
        st.sampled_from(["..", ".", "", "data", "up", "notes", "notes_link", "outside", "absolute", "secret.txt"]),
        min_size=1,
        max_size=6,
    )
)
def test_no_path_leads_to_the_secret(folder, parts):
    outcome = outcome_of(read_file("read", root="data", folder=folder), path="/".join(parts))
    assert outcome.value != "secret"


def test_a_file_that_turns_into_a_link_while_it_is_opened_leads_nowhere(tmp_path):
    data, stop = tmp_path / "data", threading.Event()
    data.mkdir()
    (tmp_path / "secret.txt").write_text("secret")

    def turn():
        while not stop.is_set():
            Path(data / "next").write_text("plain")
            (data / "next").replace(data / "file")
            (data / "next").symlink_to("../secret.txt")
            (data / "next").replace(data / "file")

    turning = threading.Thread(target=turn)
    turning.start()
    try:
        reader = read_file("read", root="data", folder=tmp_path)
        outcomes = [outcome_of(reader, path="file") for _ in range(300)]
    finally:
        stop.set()
        turning.join()
    assert {outcome.value for outcome in outcomes} <= {"plain", "", None}
