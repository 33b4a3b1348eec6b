"""Embeddings by the frameworks that have them."""

import pytest

from offbook import serving


@pytest.fixture
def url():
    with serving(responses={}) as server:
        yield server.url


@pytest.mark.xdist_group("langchain")
def test_langchain_embeds(url):
    from langchain_openai import OpenAIEmbeddings  # noqa: PLC0415 - heavy: only where it is used

    asks = {
        "base_url": f"{url}/v1",
        "api_key": "none",
        "check_embedding_ctx_length": False,
    }  # else it fetches a tokeniser
    embeddings = OpenAIEmbeddings(model="text-embedding-3-small", **asks)
    one, two = embeddings.embed_documents(["one", "two"])
    assert len(one) == len(two) == 1536
    assert one != two
    assert embeddings.embed_query("one") == pytest.approx(one)


@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize(
    ("model", "path", "size"),
    [
        ("openai/text-embedding-3-small", "/v1", 1536),
        ("gemini/text-embedding-004", "/v1beta", 768),
        ("ollama/nomic-embed-text", "", 768),
    ],
)
def test_litellm_embeds(url, model, path, size):
    from tests.wire.frameworks.litellm_clients import litellm  # noqa: PLC0415 - heavy: only where it is used

    answer = litellm.embedding(model, ["one", "two"], api_base=url + path, api_key="none")
    one, two = (entry["embedding"] for entry in answer.data)
    assert len(one) == len(two) == size
    assert one != two
