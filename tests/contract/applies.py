"""Which face has which notion.

A topic is what a test is about. It runs on all faces but those that the table leaves out, with the reason.
"""

import pytest

from tests.contract.faces import FACES

MCP = ("mcp_stdio", "mcp_http")
TOOLS = ("tools", *MCP, "program_tools")
WIRE = ("server", "httpx2", "httpx", "requests", "aiohttp")

MODELS = ("provider", *WIRE)

NEVER_OVERUSED = "what was recorded once is served once"
NO_PROTOCOLS = "there is one protocol"
CHAIN = "a session is a chain of messages, which has no keys"
NAMED = "a tool call always names its tool"
OBJECT = "whoever holds the object is its session"
REPEATED = "a tool that is called again is called twice"
AGAIN = "a session that failed starts again from its handshake"
NO_MESSAGE = "no default message would fit the next one"


def on(faces, reason):
    return dict.fromkeys([faces] if isinstance(faces, str) else faces, reason)


LEFT_OUT = {
    "a key": on("websocket", CHAIN),
    "a request": on(TOOLS, NAMED) | on("websocket", CHAIN),
    "an entry by hand": on("websocket", "sessions are recorded, not written by hand"),
    "an entry for anything": on("provider", "a provider is asked by code that can name its step")
    | on(TOOLS, NAMED)
    | on("websocket", "sessions are recorded, not written by hand"),
    "any order": on("websocket", "messages come in the order of the session"),
    "a miss in full": on("websocket", "the reason of a close frame has at most 123 bytes"),
    "unused by key": on("websocket", CHAIN),
    "overused": on((*TOOLS, "websocket"), NEVER_OVERUSED),
    "lenient": on("websocket", NO_MESSAGE),
    "null fields": on(TOOLS, "a null argument is a value") | on("websocket", "events have no messages of models"),
    "protocols": on("provider", "a provider has no protocol") | on(TOOLS, NO_PROTOCOLS) | on("websocket", NO_PROTOCOLS),
    "streams": on(TOOLS, "a tool call is not streamed") | on("websocket", "everything is a stream of frames"),
    "the hint of a miss": on("program_tools", "a program is run by a command, whose options the hint names"),
    "sessions of their own": on(("provider", "tools"), OBJECT),
    "sessions": on(("provider", "tools"), OBJECT)
    | on("websocket", "a client that connects again starts from the handshake"),
    "an environment": on(TOOLS, "arguments are the words of a model"),
    "homes in any order": on("websocket", "messages come in the order of the session"),
    "call numbers": on("websocket", AGAIN),
    "calls of all keys": on(TOOLS, "calls are counted by tool") | on("websocket", CHAIN),
    "attempts": on(TOOLS, REPEATED) | on("websocket", AGAIN),
    "attempts at once": on(TOOLS, REPEATED),
    "repeated tool calls": on(MODELS, "a request that failed is tried again") | on("websocket", CHAIN),
    "changed answers": on("websocket", "faults that change an answer change nothing here"),
    "faults of what is not recorded": on("websocket", CHAIN),
    "overused after faults": on("provider", "a MockProvider does not know of the faults around it")
    | on((*TOOLS, "websocket"), NEVER_OVERUSED),
    "chaos": on(TOOLS, "chaos concerns model calls") | on("websocket", "the handshake is drawn for, too"),
    "latency of faults": on(
        ("server", "httpx", "requests", "aiohttp", *MCP, "program_tools", "websocket"), "their clock is the real one"
    )
    | on("tools", "tool_timeout is the fault of tools that waits"),
    "a connection": on((*MODELS, *TOOLS), "a call stands for itself"),
    "new": on("websocket", "a session whose handshake is recorded is replayed as a whole"),
    "keys in modes": on("websocket", CHAIN),
    "failed calls": on(TOOLS, "an error of a tool is an answer of it")
    | on("websocket", "the handshake of a session has an answer"),
    "faults while recording": on("websocket", "faults do not fire while a session is recorded"),
    "retries": on("websocket", AGAIN),
    "calls that are noted": on(TOOLS, "a tool call is noted with its result"),
    "default answers that are noted": on(TOOLS, "a tool call is noted with its result") | on("websocket", NO_MESSAGE),
    "tools that ran": on((*MODELS, "websocket"), "a model changes nothing"),
    "what diverged": on("websocket", "the reason of a close frame has at most 123 bytes"),
    "default answers": on("websocket", NO_MESSAGE),
    "default answers that are named": on(TOOLS, "what answers a tool is a result") | on("websocket", NO_MESSAGE),
    "live": on(TOOLS, "live asks a model")
    | on(WIRE, "an HTTP client is answered at once, where no provider can be awaited")
    | on("websocket", CHAIN),
    "live without a provider": on((*TOOLS, "provider"), "live asks a model")
    | on("server", "a program is refused the policy before it runs")
    | on("websocket", CHAIN),
    "continuations": on(TOOLS, "continuations are kinds of models") | on("websocket", NO_MESSAGE),
    "results of tools": on((*MODELS, "websocket"), "continuations answer models"),
    "results that are named": on((*MODELS, "websocket"), "continuations answer models"),
    "answers by hand": on(TOOLS, "conditions are those of models") | on("websocket", CHAIN),
    "a tool in its own list": on(MODELS, "a request is found under any key") | on("websocket", CHAIN),
}

MODELS_AND_TOOLS = (("provider", "tools"), ("httpx2", "tools"), ("server", "mcp_http"), ("server", "program_tools"))
PAIRS = {
    "faces together": (
        ("provider", "httpx2"),
        ("provider", "requests"),
        ("httpx2", "requests"),
        ("requests", "aiohttp"),
    ),
    "models and tools": MODELS_AND_TOOLS,
    "the order of faults": MODELS_AND_TOOLS,
    "stopped together": (*MODELS_AND_TOOLS, *(pair[::-1] for pair in MODELS_AND_TOOLS)),
}


EXPLORED_ALIKE = on(("httpx", "aiohttp"), "it is intercepted like requests") | on(
    "mcp_stdio", "it is bytes of mcp_http"
)


def over(topic, *, left_out=()):
    """Run a test on every face that has a notion of the topic."""
    faces = [name for name in FACES if name not in LEFT_OUT.get(topic, {}) and name not in left_out]
    return pytest.mark.parametrize("face", [FACES[name] for name in faces], ids=faces)


def over_explored(topic):
    """Run a test of explorations, which take a while, on one face of each kind."""
    return over(topic, left_out=EXPLORED_ALIKE)


def over_pairs(topic):
    """Run a test on pairs of faces that one harness has."""
    ids = [" and ".join(names) for names in PAIRS[topic]]
    return pytest.mark.parametrize("faces", [[FACES[name] for name in names] for names in PAIRS[topic]], ids=ids)
