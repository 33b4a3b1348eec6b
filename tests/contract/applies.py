"""Which face has which notion, and where a face still deviates from the others.

A topic is what a test is about. It runs on all faces but those that the table leaves out, with the reason.
"""

import pytest

from tests.contract.faces import FACES

MCP = ("mcp_stdio", "mcp_http")
TOOLS = ("tools", *MCP)
WIRE = ("server", "httpx2", "httpx", "requests", "aiohttp")

CHAIN = "a session is a chain of messages, which has no keys"
NAMED = "a tool call always names its tool"


def on(faces, reason):
    return dict.fromkeys([faces] if isinstance(faces, str) else faces, reason)


LEFT_OUT = {
    "a key": on("websocket", CHAIN),
    "a request": on(TOOLS, NAMED) | on("websocket", CHAIN),
    "an entry by hand": on("websocket", "sessions are recorded, not written by hand"),
    "any order": on("websocket", "messages come in the order of the session"),
    "a miss in full": on("websocket", "the reason of a close frame has at most 123 bytes"),
    "unused by key": on("websocket", CHAIN),
}

NO_UNUSED = "a server that stands in for MCP servers leaves their entries out of unused()"

DEVIATES = {
    "unused by key": on(MCP, NO_UNUSED),
}


def over(topic):
    """Run a test on every face that has a notion of the topic; where a face deviates, it is expected to fail."""
    left_out, deviates = LEFT_OUT.get(topic, {}), DEVIATES.get(topic, {})
    marks = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in deviates.items()}
    faces = ((name, face) for name, face in FACES.items() if name not in left_out)
    return pytest.mark.parametrize(
        "face", [pytest.param(face, id=name, marks=marks.get(name, ())) for name, face in faces]
    )
