"""offbook view: a server for the browser, until it is stopped."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.view import sample


def test_it_prints_its_address_serves_the_runs_and_ends_with_the_signal(tmp_path):
    sample.write(tmp_path / "run.json", b'{"_version": 2, "greet": {"content": "Hello."}}')
    command = [Path(sys.executable).with_name("offbook"), "view", str(tmp_path), "--json", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            told = json.loads(process.stdout.readline())
            assert told["runs"] == 1
            with urlopen(f"{told['url']}api/runs") as answer:
                assert [run["id"] for run in json.load(answer)["runs"]] == ["run.json"]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "nowhere: there is no such file or folder"),
        (["redis://host/0"], "redis://host/0: only files can be viewed"),
        ([".", "--port", "70000"], "65535"),
        ([], "FOLDER|FILE"),
    ],
)
def test_what_is_wrong_is_said_at_once(run, arguments, reason):
    code, out, err = run("view", *arguments)
    assert code == 2
    assert out == ""
    assert reason in err
