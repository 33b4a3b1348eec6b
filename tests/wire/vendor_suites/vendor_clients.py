"""The clients of the vendors' suites, as a plugin of pytest in their process: each test is a session of its own.

The vendors' own have one client for all tests, which would find what others have deleted. The rest is theirs.
"""

import importlib
import os

import pytest

SDK, CLIENT = {"openai": ("openai", "OpenAI"), "anthropic": ("anthropic", "Anthropic")}[os.environ["VENDOR_SDK"]]
KEYS = {"openai": {"api_key": "none", "admin_api_key": "none"}, "anthropic": {"api_key": "none"}}[SDK]


def options(request, strict):
    session = {"x-offbook-session": request.node.nodeid}
    url = os.environ["TEST_API_BASE_URL"]
    return {"base_url": url, "default_headers": session, "_strict_response_validation": strict} | KEYS


@pytest.fixture
def client(request):
    with getattr(importlib.import_module(SDK), CLIENT)(**options(request, getattr(request, "param", True))) as client:
        yield client


@pytest.fixture
async def async_client(request):
    sdk, kind = importlib.import_module(SDK), getattr(request, "param", True)
    kind = kind if isinstance(kind, dict) else {"strict": kind}
    http_client = sdk.DefaultAioHttpClient() if kind.get("http_client") == "aiohttp" else None
    settings = options(request, kind.get("strict", True)) | {"http_client": http_client}
    async with getattr(sdk, f"Async{CLIENT}")(**settings) as client:
        yield client
