"""A recording made under one home folder matches under another, and only that is overlooked."""

import json

import openai
import pytest

from offbook import MockProvider, NormaliseRules, RecordingProvider, serving
from offbook.errors import RecordingMismatchError
from offbook.recording.match.home_paths import without_home_names
from tests.fakes import Echo, user

ANN = "Read /home/ann/project/notes.txt, please."


async def record(path, *contents, **options):
    async with RecordingProvider(Echo(), path, **options) as recorder:
        for content in contents:
            await recorder.complete(user(content), model="m", step_id=options.get("step_id"))
    return path


@pytest.mark.parametrize(
    "asked",
    [
        "Read /home/bob/project/notes.txt, please.",
        "Read /Users/bob.smith/project/notes.txt, please.",
        "Read /root/project/notes.txt, please.",
        "Read /srv/jenkins/project/notes.txt, please.",
    ],
)
async def test_a_recording_of_one_user_answers_another(tmp_path, monkeypatch, asked):
    monkeypatch.setenv("HOME", "/srv/jenkins")
    path = await record(tmp_path / "run.json", ANN)
    mock = MockProvider(path, strict=True)
    assert (await mock.complete(user(asked), model="m")).content == f"{ANN} #1"
    assert mock.unused() == []


@pytest.mark.parametrize(
    "asked",
    [
        "Read /home/bob/other/notes.txt, please.",
        "Read /rooted/project/notes.txt, please.",
        "Read /homes/bob/project/notes.txt, please.",
        "Read https://x.org/home/bob/project/notes.txt, please.",
    ],
)
async def test_what_differs_in_more_is_a_mismatch(tmp_path, asked):
    mock = MockProvider(await record(tmp_path / "run.json", ANN), strict=True)
    with pytest.raises(RecordingMismatchError):
        await mock.complete(user(asked), model="m")


async def test_an_equal_request_comes_first_and_each_answer_is_served_once(tmp_path):
    eve = ANN.replace("ann", "eve")
    mock = MockProvider(await record(tmp_path / "run.json", ANN, eve), strict=True)
    assert (await mock.complete(user(eve), model="m")).content == f"{eve} #2"
    assert (await mock.complete(user(ANN.replace("ann", "bob")), model="m")).content == f"{ANN} #1"
    assert mock.unused() == []


async def test_a_rule_of_the_recording_makes_home_folders_count(tmp_path):
    path = await record(tmp_path / "run.json", ANN, normalise=NormaliseRules(home_paths=False))
    assert json.loads(path.read_text())["_meta"]["normalise"] == {"home_paths": False}
    with pytest.raises(RecordingMismatchError):
        await MockProvider(path, strict=True).complete(user(ANN.replace("ann", "bob")), model="m")


async def test_windows_and_json_inside_of_json_are_known():
    inner = json.dumps({"path": r"C:\Users\ann\notes.txt"})
    outer = json.dumps({"content": inner, "beside": r"D:\Users\ann"}).encode()
    assert b"ann" not in without_home_names(outer)
    assert outer.replace(b"ann", b"bob") != outer
    assert without_home_names(outer) == without_home_names(outer.replace(b"ann", b"bob"))


async def test_over_http_too_also_for_what_is_no_model_call(tmp_path):
    path = await record(tmp_path / "run.json", ANN)
    with serving(path) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        asked = user(ANN.replace("ann", "bob"))
        assert client.chat.completions.create(model="m", messages=asked).choices[0].message.content == f"{ANN} #1"
        assert server.misses == []
