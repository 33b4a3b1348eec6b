"""Long base64 of a JSON recording is kept once, in a folder beside it, and nobody who reads the recording sees that."""

import base64
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offbook import MockProvider, RecordingProvider
from offbook.errors import InputError
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import document_from_dict, render_document
from offbook.recording.format.wire_record import WireRecord
from offbook.recording.stores.json_file import JsonFileStore
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.media_files import OUT_OF_LINE_CHARS, MediaFolder
from tests.fakes import Echo

PNG = b"\x89PNG\r\n\x1a\n" + random.Random(7).randbytes(20_000)
IMAGE = base64.b64encode(PNG).decode()
ASKED = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
        ],
    }
]


@pytest.fixture
async def path(tmp_path):
    async with RecordingProvider(Echo(), tmp_path / "run.json") as recorder:
        await recorder.complete(ASKED, model="m", step_id="look")
        await recorder.complete([*ASKED, {"role": "user", "content": "Sure?"}], model="m", step_id="look")
    return tmp_path / "run.json"


def files_of(path):
    return sorted((path.parent / f"{path.name}.files").iterdir())


async def test_an_image_is_one_file_however_often_it_is_sent(path):
    text = path.read_text()
    assert IMAGE not in text
    (file,) = files_of(path)
    assert file.read_bytes() == PNG
    assert file.suffix == ".png"
    assert text.count(f"data:image/png;base64,offbook-file:{file.name}") == 3
    assert json.loads(text)["_files"] == "run.json.files"


async def test_a_replay_matches_and_answers_as_if_it_were_in_the_recording(path):
    mock = MockProvider(path, strict=True)
    assert "image_url" in (await mock.complete(ASKED, model="m", step_id="look")).content
    assert json.loads(bytes(next(iter(open_store(path).read())).exchange.request))["messages"] == ASKED


async def test_it_goes_along_from_store_to_store_and_back_to_the_byte(path, tmp_path):
    database = open_store(f"sqlite:///{tmp_path}/run.db")
    database.save(open_store(path).load())
    again = open_store(tmp_path / "again.json")
    again.save(database.load())
    assert render_document(again.load()) == render_document(open_store(path).load())
    assert (tmp_path / "again.json").read_text().replace("again.json", "run.json") == path.read_text()


async def test_what_no_entry_needs_any_more_is_removed_and_other_files_are_not(path):
    store, own = open_store(path), path.parent / "run.json.files" / "README"
    own.write_text("ours")
    store.update(lambda document: document.entries.clear())
    assert files_of(path) == [own]
    own.unlink()
    store.remove()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(b"other"), "other content than its name says"),
    ],
)
async def test_a_file_that_is_missing_or_changed_is_named(path, damage, reason):
    (file,) = files_of(path)
    damage(file)
    with pytest.raises(InputError, match=reason) as caught:
        open_store(path).load()
    assert file.name in str(caught.value)


@pytest.mark.parametrize("name", ["../elsewhere.files", "/etc/x.files", "run", 7])
def test_a_folder_elsewhere_is_refused_or_ignored(tmp_path, name):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"_version": 2, "_files": name, "a": {"content": "offbook-file:" + "0" * 64 + ".png"}}))
    if name == 7:
        assert open_store(path).load().exchanges("a")[0].content.startswith("offbook-file:")
        return
    with pytest.raises(InputError, match="is not a folder of files"):
        open_store(path).load()


def test_a_text_that_looks_like_a_reference_is_only_a_text(tmp_path):
    text = "offbook-file:" + "0" * 64 + ".png"
    store = JsonFileStore(tmp_path / "run.json")
    store.save(document_from_dict({"a": {"content": text}, "b": {"content": IMAGE}}, source="here"))
    assert [each.content for _, each in store.load()] == [text, IMAGE]
    assert not (tmp_path / "run.json.files").exists()


NEAR = OUT_OF_LINE_CHARS * 3 // 4
SEPARATORS = ["", "=", "==", ",", '"', "\n", "\\", "é", "data:image/png;base64,", '{"b64_json":"', "/"]
pieces = st.lists(st.tuples(st.integers(-4, 4), st.booleans(), st.sampled_from(SEPARATORS)), max_size=3)


def text_of(drawn):
    """Base64 around the limit, and text that only looks like it, with something between them."""
    parts = [base64.b64encode(random.Random(more).randbytes(NEAR + more)).decode() for more, _, _ in drawn]
    return "".join(
        between + (part if is_base64 else "a" * len(part.rstrip("=")))
        for part, (_, is_base64, between) in zip(parts, drawn, strict=True)
    )


@settings(max_examples=25)
@given(content=pieces, body=pieces)
def test_whatever_a_recording_holds_comes_back_to_the_byte(tmp_path_factory, content, body):
    folder = MediaFolder(tmp_path_factory.mktemp("media") / "run.json")
    document = Document()
    document.add("a", Exchange(content=text_of(content), wire=WireRecord(protocol="http", body=text_of(body))))
    data = render_document(document)
    referring, files = folder.take_out(data)
    folder.write(files, mode=None)
    back = folder.put_back(referring, source="here")
    assert back.replace(b'  "_files": "run.json.files",\n', b"", 1) == data
    assert bool(files) == (referring != data)
