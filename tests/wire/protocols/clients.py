"""One question in each protocol, by the client that its vendor ships.

`python -m tests.wire.protocols.clients 'Anthropic messages' streamed` asks the server that its environment names.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from msgspec import Struct

from offbook.recording.format.wire_record import PLAIN_HTTP, WEBSOCKET

QUESTION = "say hello"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
KEY = "sk-any-key-of-a-client"
TIMEOUT_S = 20.0


def _openai(url: str, path: str = "/v1") -> Any:
    import openai  # noqa: PLC0415 - a program loads its own SDK only

    return openai.OpenAI(base_url=url + path, api_key=KEY, max_retries=0, timeout=TIMEOUT_S)


def ask_chat(url: str, *, stream: bool) -> str:
    with _openai(url) as client:
        return _read_chat(client.chat.completions.create(model="m", messages=MESSAGES, stream=stream), stream=stream)


def _read_chat(answer: Any, *, stream: bool) -> str:
    if not stream:
        return str(answer.choices[0].message.content)
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)


def ask_completions(url: str, *, stream: bool) -> str:
    with _openai(url) as client:
        answer = client.completions.create(model="m", prompt=QUESTION, stream=stream)
        chunks = answer if stream else [answer]
        return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


def ask_responses(url: str, *, stream: bool) -> str:
    with _openai(url) as client:
        answer = client.responses.create(model="m", input=QUESTION, stream=stream)
        if not stream:
            return str(answer.output_text)
        return "".join(event.delta for event in answer if event.type == "response.output_text.delta")


def ask_embeddings(url: str, *, stream: bool) -> str:
    with _openai(url) as client:
        return str(client.embeddings.create(model="m", input=QUESTION, encoding_format="float").data[0].embedding)


def ask_azure(url: str, *, stream: bool) -> str:
    import openai  # noqa: PLC0415

    options: Any = {"api_version": "2024-10-21", "max_retries": 0, "timeout": TIMEOUT_S}
    with openai.AzureOpenAI(azure_endpoint=url, api_key=KEY, **options) as client:
        return _read_chat(client.chat.completions.create(model="m", messages=MESSAGES, stream=stream), stream=stream)


def ask_anthropic(url: str, *, stream: bool) -> str:
    import anthropic  # noqa: PLC0415

    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0, timeout=TIMEOUT_S) as client:
        return _read_messages(client, stream=stream)


def ask_vertex_claude(url: str, *, stream: bool) -> str:
    import anthropic  # noqa: PLC0415

    login: Any = {"project_id": "p", "region": "europe-west4", "access_token": KEY, "max_retries": 0}
    with anthropic.AnthropicVertex(base_url=f"{url}/v1", **login) as client:
        return _read_messages(client, stream=stream)


def _read_messages(client: Any, *, stream: bool) -> str:
    answer = client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=stream)
    if not stream:
        return str(answer.content[0].text)
    return "".join(event.delta.text for event in answer if event.type == "content_block_delta")


def ask_gemini(url: str, *, stream: bool) -> str:
    from google import genai  # noqa: PLC0415

    with genai.Client(api_key=KEY, http_options=genai.types.HttpOptions(base_url=url)) as client:
        return _read_content(client, stream=stream)


def ask_vertex_gemini(url: str, *, stream: bool) -> str:
    from google import genai  # noqa: PLC0415
    from google.oauth2.credentials import Credentials  # noqa: PLC0415

    login: Any = {"project": "p", "location": "europe-west4", "credentials": Credentials(KEY)}
    with genai.Client(vertexai=True, http_options=genai.types.HttpOptions(base_url=url), **login) as client:
        return _read_content(client, stream=stream)


def _read_content(client: Any, *, stream: bool) -> str:
    if not stream:
        return str(client.models.generate_content(model="m", contents=QUESTION).text)
    pieces = client.models.generate_content_stream(model="m", contents=QUESTION)
    return "".join(piece.text or "" for piece in pieces)


def ask_ollama(url: str, *, stream: bool) -> str:
    import ollama  # noqa: PLC0415

    with ollama.Client(host=url, timeout=TIMEOUT_S, verify=False) as client:
        answer: Any = client.chat("m", MESSAGES, stream=stream)
        return "".join(line.message.content for line in (answer if stream else [answer]))


def ask_ollama_generate(url: str, *, stream: bool) -> str:
    import ollama  # noqa: PLC0415

    with ollama.Client(host=url, timeout=TIMEOUT_S, verify=False) as client:
        answer: Any = client.generate("m", QUESTION, stream=stream)
        return "".join(line.response for line in (answer if stream else [answer]))


def _bedrock(url: str) -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    settings = Config(read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1})
    session = boto3.session.Session(KEY, KEY, region_name="us-east-1")
    return session.client("bedrock-runtime", endpoint_url=url, config=settings)


def ask_converse(url: str, *, stream: bool) -> str:
    messages = [{"role": "user", "content": [{"text": QUESTION}]}]
    with closing(_bedrock(url)) as client:
        if not stream:
            return str(client.converse(modelId="m", messages=messages)["output"]["message"]["content"][0]["text"])
        with closing(client.converse_stream(modelId="m", messages=messages)["stream"]) as events:
            deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
        return "".join(delta["text"] for delta in deltas)


def ask_invoke(url: str, *, stream: bool) -> str:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": MESSAGES}
    with closing(_bedrock(url)) as client:
        if not stream:
            answer = client.invoke_model(modelId="m", body=json.dumps(body))["body"].read()
            return str(json.loads(answer)["content"][0]["text"])
        answer = client.invoke_model_with_response_stream(modelId="m", body=json.dumps(body))
        with closing(answer["body"]) as chunks:
            events = [json.loads(chunk["chunk"]["bytes"]) for chunk in chunks]
        return "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")


def ask_invoke_other(url: str, *, stream: bool) -> str:
    with closing(_bedrock(url)) as client:
        answer = client.invoke_model(modelId="meta.llama", body=json.dumps({"prompt": QUESTION}))["body"].read()
        return str(json.loads(answer)["generation"])


_LAST_EVENTS = ("response.done", "response.completed", "turn_complete")


def _over_websocket(name: str) -> Callable[..., str]:
    def ask(url: str, *, stream: bool) -> str:
        from tests.wire.websocket import clients  # noqa: PLC0415

        heard = asyncio.run(asyncio.wait_for(getattr(clients, name)(url), 60))
        text = json.dumps(heard[-4:], sort_keys=True)
        if not any(end in text for end in _LAST_EVENTS):  # clients end quietly when a server goes away
            raise RuntimeError(f"the session ended early: {text}")
        return text

    return ask


class Protocol(Struct, frozen=True, kw_only=True):
    """A row of the table: who asks, whose address is asked, and the protocol that a recording names.

    `codec` is the codec of its answers, if it has one.
    """

    ask: Callable[..., str]
    vendor: str
    codec: str = ""
    recorded_as: str = PLAIN_HTTP
    can_stream: bool = True

    @property
    def is_websocket(self) -> bool:
        return self.recorded_as == WEBSOCKET


def _model(ask: Callable[..., str], vendor: str, codec: str) -> Protocol:
    return Protocol(ask=ask, vendor=vendor, codec=codec, recorded_as=codec)


def _socket(name: str, vendor: str) -> Protocol:
    return Protocol(ask=_over_websocket(name), vendor=vendor, recorded_as=WEBSOCKET, can_stream=False)


PROTOCOLS: dict[str, Protocol] = {
    "OpenAI chat completions": _model(ask_chat, "openai", "openai_chat"),
    "OpenAI responses": _model(ask_responses, "openai", "openai_responses"),
    "OpenAI completions (legacy)": _model(ask_completions, "openai", "openai_completions"),
    "OpenAI embeddings": Protocol(ask=ask_embeddings, vendor="openai", can_stream=False),
    "Anthropic messages": _model(ask_anthropic, "anthropic", "anthropic"),
    "Gemini generateContent": _model(ask_gemini, "google", "gemini"),
    "Ollama chat": _model(ask_ollama, "ollama", "ollama"),
    "Ollama generate": _model(ask_ollama_generate, "ollama", "ollama_generate"),
    "Azure OpenAI": _model(ask_azure, "azure", "openai_chat"),
    "Vertex AI, Gemini": _model(ask_vertex_gemini, "vertex", "gemini"),
    "Vertex AI, Claude (rawPredict)": _model(ask_vertex_claude, "vertex", "anthropic"),
    "Bedrock Converse, ConverseStream": _model(ask_converse, "bedrock", "bedrock"),
    "Bedrock InvokeModel, Claude": _model(ask_invoke, "bedrock", "bedrock_anthropic"),
    "Bedrock InvokeModel, others": Protocol(ask=ask_invoke_other, vendor="bedrock", can_stream=False),
    "OpenAI Realtime": _socket("realtime", "openai"),
    "OpenAI responses over WebSocket": _socket("responses", "openai"),
    "Gemini Live": _socket("live", "google"),
}


if __name__ == "__main__":
    sys.stdout.write(PROTOCOLS[sys.argv[1]].ask(os.environ["OFFBOOK_URL"], stream=sys.argv[2] == "streamed"))
