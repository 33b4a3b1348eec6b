"""How long the SDKs wait for an answer if nobody says: what the page of faults tells."""

import anthropic
import httpx
import ollama
import openai
import pytest
from google import genai

pytestmark = pytest.mark.xdist_group("sdks")

TEN_MINUTES_S = 600


def test_openai_and_anthropic_wait_for_ten_minutes():
    assert openai.DEFAULT_TIMEOUT.read == anthropic.DEFAULT_TIMEOUT.read == TEN_MINUTES_S


def test_google_waits_for_ever():
    with genai.Client(api_key="k") as client:
        assert client._api_client._httpx_client.timeout.read is None


def test_ollama_waits_for_ever():
    with ollama.Client(verify=False) as client:
        assert client._client.timeout == httpx.Timeout(None)
