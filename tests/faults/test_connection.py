"""The connection_reset fault."""

import subprocess
import sys

import httpx
import httpx2
import pytest

from offbook.errors import ProviderConnectionError, ProviderTimeoutError


@pytest.mark.parametrize("stream", [True, False])
def test_it_raises_a_connection_error_at_once(apply, stream):
    came, error, after_s = apply({"type": "connection_reset"}, stream=stream, content="never seen")
    assert isinstance(error, ProviderConnectionError)
    assert isinstance(error, ConnectionError)
    assert came == []
    assert after_s == 0.0
    assert error.status_code is None
    assert error.provider == "mock"


@pytest.mark.parametrize("client", [httpx, httpx2])
def test_code_that_catches_the_error_of_its_http_client_catches_the_reset(apply, client):
    _, error, _ = apply({"type": "connection_reset"})
    assert isinstance(error, client.ConnectError)
    assert type(error).__name__ == "ProviderConnectionError"


def test_a_reset_of_a_program_without_an_http_client_loads_none():
    program = (
        "import sys\n"
        "from offbook.faults.named_errors import connect_error\n"
        "error = connect_error('reset', provider='mock')\n"
        "print(type(error).__module__, {'httpx', 'httpx2'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "offbook.errors set()\n"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("after_ms", [0, 1, 5000, 3_600_000])
def test_it_raises_a_timeout_error_after_its_time(apply, after_ms, stream):
    came, error, after_s = apply({"type": "timeout", "after_ms": after_ms}, stream=stream, content="never seen")
    assert type(error) is ProviderTimeoutError
    assert isinstance(error, TimeoutError)
    assert came == []
    assert after_s == pytest.approx(after_ms / 1000)
    assert error.status_code is None
    assert error.provider == "mock"


def test_by_default_it_does_not_wait(apply):
    assert apply({"type": "timeout"})[2] == 0.0
