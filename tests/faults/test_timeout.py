"""The timeout fault."""

import pytest

from offbook.errors import ProviderTimeoutError


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("after_ms", [0, 1, 5000, 3_600_000])
def test_it_raises_a_timeout_error_after_its_time(strike, after_ms, stream):
    came, error, after_s = strike({"type": "timeout", "after_ms": after_ms}, stream=stream, content="never seen")
    assert type(error) is ProviderTimeoutError
    assert isinstance(error, TimeoutError)
    assert came == []
    assert after_s == pytest.approx(after_ms / 1000)
    assert (error.status_code, error.provider) == (None, "mock")


def test_by_default_it_does_not_wait(strike):
    assert strike({"type": "timeout"})[2] == 0.0
