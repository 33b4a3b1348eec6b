"""Answers that stream."""

import pytest

from offbook import ReasoningDelta, Response, StreamRestart, TextDelta, ToolCallDelta
from offbook.agent import ChunkType, ProviderClient, ScriptedClient, StreamChunk, StreamError, WorkflowRunner
from tests.agent.parts import FETCH, SUBMIT, agent
from tests.fakes import Scripted

ASKED = {"prompt_vars": {"role": "tester"}}


async def test_a_streaming_runner_tells_every_chunk():
    heard = []
    client = ScriptedClient([Response("Let me look.", tool_calls=(FETCH,)), SUBMIT])
    await WorkflowRunner(client, stream=True, on_chunk=heard.append).run(agent(), "go", **ASKED)
    assert [chunk.type for chunk in heard] == [
        *[ChunkType.TEXT_DELTA] * 3,
        ChunkType.TOOL_CALL_DELTA,
        ChunkType.FINAL,
        ChunkType.TOOL_CALL_DELTA,
        ChunkType.FINAL,
    ]
    assert "".join(chunk.content for chunk in heard[:3]) == "Let me look."


async def test_a_listener_may_be_async():
    heard = []

    async def listen(chunk):
        heard.append(chunk.type)

    await WorkflowRunner(ScriptedClient([FETCH, SUBMIT]), stream=True, on_chunk=listen).run(agent(), "go", **ASKED)
    assert heard.count(ChunkType.FINAL) == 2


async def test_a_stream_without_its_last_chunk_is_an_error():
    class Cut:
        async def send_stream(self, messages, tools=None):
            yield StreamChunk(ChunkType.TEXT_DELTA, "partial")

    with pytest.raises(StreamError, match="FINAL chunk") as caught:
        await WorkflowRunner(Cut(), stream=True).run(agent(), "go", **ASKED)
    assert len(caught.value.messages) == 2


async def test_a_providers_stream_becomes_chunks():
    heard = []
    pieces = [
        TextDelta("void"),
        StreamRestart("broken"),
        ReasoningDelta("Hm."),
        TextDelta("Looking"),
        ToolCallDelta(0, "{}", "a", "fetch"),
        Response("Looking", tool_calls=(FETCH,), reasoning="Hm."),
    ]
    provider = Scripted(pieces, [Response(tool_calls=(SUBMIT,))])
    runner = WorkflowRunner(ProviderClient(provider, "any"), stream=True, on_chunk=heard.append)
    assert await runner.run(agent(), "go", **ASKED) == "submit done"
    assert [(chunk.type, chunk.content) for chunk in heard[:6]] == [
        (ChunkType.TEXT_DELTA, "void"),
        (ChunkType.RESTART, "broken"),
        (ChunkType.REASONING_DELTA, "Hm."),
        (ChunkType.TEXT_DELTA, "Looking"),
        (ChunkType.TOOL_CALL_DELTA, "{}"),
        (ChunkType.FINAL, ""),
    ]
    assert provider.requests[0].stream
    assert provider.closed_replies == 2


async def test_a_listener_that_fails_lets_go_of_the_stream():
    def refuse(_):
        raise RuntimeError("no room")

    provider = Scripted([TextDelta("one"), TextDelta("two"), Response("one two")])
    with pytest.raises(RuntimeError, match="no room"):
        await WorkflowRunner(ProviderClient(provider, "any"), stream=True, on_chunk=refuse).run(agent(), "go", **ASKED)
    assert provider.closed_replies == 1
