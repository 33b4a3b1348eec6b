"""--intercept of exec and explore: programs with hosts of their own are answered, recorded, broken and kept in."""

import json
import shutil
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli import flows
from tests.cli.programs import PYTHON
from tests.servers.models import chat_answer

URL = "https://api.openai.com/v1/chat/completions"
BODY = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]})
POST = """
import json, sys, urllib.request
for url in sys.argv[2:]:
    request = urllib.request.Request(url, sys.argv[1].encode(), {"authorization": "Bearer sk-own-key"})
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""
LIBRARIES = {
    "boto3": """
import boto3
asked = [{"role": "user", "content": [{"text": "Hi"}]}]
print(boto3.client("bedrock-runtime", region_name="eu-west-1").converse(modelId="m", messages=asked))
""",
    "requests": "import requests; print(requests.post(sys.argv[2], data=sys.argv[1]).text)",
    "httpx": "import httpx; print(httpx.post(sys.argv[2], content=sys.argv[1]).text)",
    "aiohttp": """
import asyncio, aiohttp
async def ask():
    async with aiohttp.ClientSession(trust_env=True) as client, client.post(sys.argv[2], data=sys.argv[1]) as answer:
        print(await answer.text())
asyncio.run(ask())
""",
}


@pytest.fixture
def execute(write, run_programs):
    """Run `offbook exec …` on `run.json`: gives the code and both outputs."""
    write("run.json", flows.recording({"first": {"content": "Hello!"}}))
    return lambda *words: run_programs("exec", *words)


@pytest.fixture
def real(tmp_path, monkeypatch):
    """A real API in TLS, whose authority this process trusts: gives its URL and what it was asked."""
    import trustme  # noqa: PLC0415 - large, and tests that fork need not have it

    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append((self.path, self.headers["authorization"], self.headers["host"]))
            self.rfile.read(int(self.headers["content-length"]))
            answer = chat_answer("real")
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield f"https://localhost:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_program_with_a_host_of_its_own_is_answered(execute):
    code, out, err = execute("--intercept", "--replay", "run.json", "--", *PYTHON, POST, BODY, URL)
    assert code == 0
    assert out == "Hello!\n"
    assert "1 call, 1 served" in err


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_is_answered(execute):
    code, out, _ = execute("--intercept", "--replay", "run.json", "--", "curl", "-sS", "-d", BODY, URL)
    assert code == 0
    assert "Hello!" in out


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_answered(execute, library):
    program = [sys.executable, "-c", f"import sys\n{LIBRARIES[library]}", BODY, URL]
    code, out, _ = execute("--intercept", "--replay", "run.json", "--", *program)
    assert code == 0
    assert "Hello!" in out


def test_calls_are_recorded_over_tls_with_the_key_of_the_client_which_is_not_kept(execute, real, tmp_path):
    url, asked = real
    path, program = tmp_path / "new.json", [*PYTHON, POST, BODY, "https://llm.test/v1/chat/completions"]
    recorded = execute("--intercept", "-o", f"intercept_hosts=llm.test={url}", "--record", path, "--", *program)
    assert recorded[:2] == (0, "real\n")
    assert asked == [("/v1/chat/completions", "Bearer sk-own-key", url.removeprefix("https://"))]
    assert b"sk-own-key" not in path.read_bytes()
    replayed = execute("--intercept", "-o", "intercept_hosts=llm.test", "--replay", path, "--", *program)
    assert replayed[:2] == (0, "real\n")
    assert len(asked) == 1


def test_a_fault_fires_in_tls(execute):
    fault = ["--fault", "call=1: http_error 503"]
    code, _, err = execute("--intercept", "--replay", "run.json", *fault, "--", *PYTHON, POST, BODY, URL)
    assert code == 1
    assert "HTTP Error 503" in err


@pytest.mark.parametrize("intercept", [[], ["--intercept"]])
def test_other_hosts_are_refused_and_listed_if_the_network_is_blocked(execute, tmp_path, intercept):
    program = [*PYTHON, "import sys, urllib.request as u\ntry: u.urlopen(sys.argv[1])\nexcept OSError as e: print(e)"]
    options = [
        *intercept,
        "-o",
        "block_network=true",
        "-o",
        "allow_no_calls=true",
        "--report",
        tmp_path / "report.json",
    ]
    code, out, err = execute("--replay", "run.json", *options, "--", *program, "https://elsewhere.test/")
    assert code == 0
    assert "403" in out
    assert "block_network refused elsewhere.test:443 (1 time)" in err
    network = json.loads((tmp_path / "report.json").read_text())["network"]
    assert network == {"passed": {}, "refused": {"elsewhere.test:443": 1}, "distrusted": {}}


def test_a_program_that_asked_elsewhere_is_told_of_the_host(execute):
    program = [*PYTHON, "import sys, urllib.request as u\ntry: u.urlopen(sys.argv[1])\nexcept OSError as e: print(e)"]
    code, _, err = execute("--intercept", "--replay", "run.json", "--", *program, "https://llm.invalid/")
    assert code == 3
    assert "it connected to llm.invalid:443; name a model's host by -o intercept_hosts=HOST" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "intercept_hosts=a.test"], "intercept_hosts requires intercept"),
        (["--intercept", "-o", "intercept_hosts=https://a.test"], "expected a host, got 'https://a.test'"),
        (["--intercept", "-o", "intercept_hosts=a.test=b"], "expected a URL without a path behind '='"),
    ],
)
def test_what_cannot_be_intercepted_is_refused_before_the_program_starts(execute, options, message):
    code, out, err = execute(*options, "--replay", "run.json", "--", "echo", "started")
    assert code == 2
    assert out == ""
    assert message in err


def test_nothing_is_left_on_the_disk(execute, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    assert execute("--intercept", "--replay", "run.json", "--", *PYTHON, POST, BODY, URL)[0] == 0
    assert set(tmp_path.iterdir()) == before


TRIES_TWICE = """
import json, sys, urllib.request
def ask():
    return json.load(urllib.request.urlopen(sys.argv[2], sys.argv[1].encode()))["choices"][0]["message"]["content"]
try: print(ask())
except OSError as error: print(ask(), file=sys.stderr)
"""


def test_an_intercepted_program_is_explored_and_two_reports_are_alike(write, run, tmp_path):
    write("run.json", flows.recording({"first": {"content": "Hello!"}}))
    reports = [tmp_path / "first.json", tmp_path / "second.json"]
    for report in reports:
        options = ["-o", "intercept=true", "--replay", "run.json", "--faults", "connection_reset", "--workers", "1"]
        code, out, _ = run("explore", *options, "--reporter", f"json={report}", "--", *PYTHON, TRIES_TWICE, BODY, URL)
        assert code == 1
        assert "2 cases, 2 findings" in out
    assert reports[0].read_bytes() == reports[1].read_bytes()


@pytest.mark.parametrize("option", ["intercept", "block_network"])
def test_only_a_program_is_intercepted(write, run, option):
    write("flow.yaml", flows.GREET)
    write("run.json", flows.recording(flows.ANSWERS))
    code, _, err = run("explore", "flow.yaml", "--recording", "run.json", "-o", f"{option}=true")
    assert code == 2
    assert f"{option}: it is for a program" in err
