"""The variables that lead the vendors' SDKs to a server."""

from __future__ import annotations

DUMMY_KEY = "understudy"
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OLLAMA_API_KEY")


def addresses(url: str) -> dict[str, str]:
    """The variables that tell SDKs where to ask, for a server at `url`."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "OLLAMA_HOST": url,
    }


def keys(api_key: str = DUMMY_KEY) -> dict[str, str]:
    """The variables that hold keys, with one that no vendor would take."""
    return dict.fromkeys(_KEYS, api_key)
