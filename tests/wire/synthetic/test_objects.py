"""What clients create on a server without a recording is there when they ask for it, as the vendors' SDKs read it."""

from collections.abc import Iterator

import anthropic
import httpx
import openai
import pytest

from offbook import serving
from offbook.messages import Response
from offbook.wire.request import HttpRequest, parse_request
from offbook.wire.response import HttpResponse
from offbook.wire.synthetic import objects

ANSWERS = {"any": [{"content": "One."}, {"content": "Two."}, {"content": "Three."}]}


@pytest.fixture
def server() -> Iterator:
    with serving(responses=ANSWERS) as server:
        yield server


@pytest.fixture
def client(server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        yield client


def requests(*names):
    params = {"model": "m", "max_tokens": 9}
    return [{"custom_id": name, "params": params | {"messages": [{"role": "user", "content": name}]}} for name in names]


def text_of(client, name):
    """What a stored response says; empty if it is not found."""
    try:
        return client.responses.retrieve(name).output_text
    except openai.NotFoundError:
        return ""


class TestResponses:
    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_a_response_is_retrieved_as_it_was_given(self, client, is_streamed):
        if is_streamed:
            *_, end = client.responses.create(model="m", input="Hi", stream=True)
            said = end.response
        else:
            said = client.responses.create(model="m", input="Hi")
        assert client.responses.retrieve(said.id).output == said.output

    def test_its_events_are_those_of_a_stream_from_any_place_on(self, client):
        said = client.responses.create(model="m", input="Hi")
        events = list(client.responses.retrieve(said.id, stream=True))
        assert events[-1].response.output_text == "One."
        rest = list(client.responses.retrieve(said.id, stream=True, starting_after=events[-2].sequence_number))
        assert rest == events[-1:]

    def test_its_input_is_listed_as_items(self, client):
        said = client.responses.create(model="m", instructions="Be kind.", input="Hi")
        (item,) = client.responses.input_items.list(said.id)
        assert (item.role, item.content[0].text) == ("user", "Hi")

    def test_a_deleted_response_is_not_found_until_it_is_made_again(self, client):
        said = client.responses.create(model="m", input="Hi")
        client.responses.delete(said.id)
        for ask in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
            with pytest.raises(openai.NotFoundError):
                ask(said.id)
        again = client.responses.create(model="m", input="Hi")
        assert client.responses.retrieve(again.id).output_text == "Two."

    def test_what_is_not_to_be_stored_is_not_known(self, client):
        said = client.responses.create(model="m", input="Hi", store=False)
        assert text_of(client, said.id) != "One."

    def test_a_prompt_or_a_conversation_may_hold_the_input(self, client):
        assert client.responses.create(prompt={"id": "pmpt_1"}).output_text == "One."

    def test_nothing_of_another_session_is_known(self, client, server):
        said = client.responses.create(model="m", input="Hi")
        other = client.with_options(base_url=f"{server.url}/s/other/v1")
        assert text_of(other, said.id) != "One."


class TestConversations:
    def test_a_conversation_holds_its_items_and_what_was_said_in_it(self, client):
        conversation = client.conversations.create(items=[{"role": "user", "content": "Before"}])
        client.responses.create(model="m", input="Hi", conversation=conversation.id)
        items = list(client.conversations.items.list(conversation.id, order="asc"))
        assert [item.content[0].text for item in items] == ["Before", "Hi", "One."]

    def test_items_come_in_pages(self, client):
        conversation = client.conversations.create()
        texts = [str(number) for number in range(25)]
        for text in texts:
            client.conversations.items.create(conversation.id, items=[{"role": "user", "content": text}])
        items = list(client.conversations.items.list(conversation.id))
        assert [item.content[0].text for item in items] == texts[::-1]

    def test_an_item_is_retrieved_and_deleted(self, client):
        conversation = client.conversations.create(items=[{"role": "user", "content": "Hi"}])
        (item,) = client.conversations.items.list(conversation.id)
        assert client.conversations.items.retrieve(item.id, conversation_id=conversation.id) == item
        client.conversations.items.delete(item.id, conversation_id=conversation.id)
        with pytest.raises(openai.NotFoundError, match=item.id):
            client.conversations.items.retrieve(item.id, conversation_id=conversation.id)

    def test_metadata_is_updated(self, client):
        conversation = client.conversations.create(metadata={"a": "1"})
        client.conversations.update(conversation.id, metadata={"b": "2"})
        assert client.conversations.retrieve(conversation.id).metadata == {"b": "2"}

    def test_a_bad_body_is_refused_at_its_place(self, client):
        conversation = client.conversations.create()
        with pytest.raises(openai.BadRequestError, match="items"):
            client.conversations.items.create(conversation.id, items=[])

    def test_the_oldest_are_forgotten_first(self, client, monkeypatch):
        monkeypatch.setattr(objects, "MAX_OBJECTS", 2)
        said = [client.responses.create(model="m", input=str(number)) for number in range(2)]
        assert [text_of(client, each.id) for each in said] == ["One.", "Two."]
        said.append(client.responses.create(model="m", input="2"))
        assert [text_of(client, each.id) for each in said[1:]] == ["Two.", "Three."]
        assert text_of(client, said[0].id) != "One."


class TestCompletions:
    def ask(self, client, text, **fields):
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **fields)

    def test_only_stored_completions_are_listed_by_model_and_metadata(self, client):
        self.ask(client, "no")
        kept = self.ask(client, "yes", store=True, metadata={"a": "1"})
        self.ask(client, "other", store=True, metadata={"a": "2"})
        assert [each.id for each in client.chat.completions.list(metadata={"a": "1"}, model="m")] == [kept.id]
        assert list(client.chat.completions.list(model="other")) == []

    def test_a_streamed_completion_is_stored_whole(self, client):
        first, *_ = self.ask(client, "Hi", store=True, stream=True)
        assert client.chat.completions.retrieve(first.id).choices[0].message.content == "One."

    def test_its_messages_are_listed(self, client):
        kept = self.ask(client, "Hi", store=True)
        assert [each.content for each in client.chat.completions.messages.list(kept.id)] == ["Hi"]


class TestBatches:
    def test_a_batch_asks_the_model_each_of_its_messages_in_order(self, claude):
        batch = claude.messages.batches.create(requests=requests("a", "b"))
        assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 2)
        batch = claude.messages.batches.retrieve(batch.id)
        assert (batch.processing_status, batch.request_counts.succeeded) == ("ended", 2)
        results = [
            (each.custom_id, each.result.message.content[0].text) for each in claude.messages.batches.results(batch.id)
        ]
        assert results == [("a", "One."), ("b", "Two.")]

    def test_a_request_that_cannot_be_read_is_an_error_of_its_own(self, claude):
        bad = {"custom_id": "bad", "params": {"model": "m", "max_tokens": 9, "messages": "Hi"}}
        batch = claude.messages.batches.create(requests=[bad, *requests("a")])
        kinds = [each.result.type for each in claude.messages.batches.results(batch.id)]
        assert kinds == ["errored", "succeeded"]
        assert claude.messages.batches.retrieve(batch.id).request_counts.errored == 1

    def test_a_canceled_batch_has_canceled_messages(self, claude):
        batch = claude.messages.batches.create(requests=requests("a"))
        assert claude.messages.batches.cancel(batch.id).processing_status == "canceling"
        assert claude.messages.batches.retrieve(batch.id).request_counts.canceled == 1
        assert [each.result.type for each in claude.messages.batches.results(batch.id)] == ["canceled"]

    def test_batches_are_listed_in_pages_the_latest_first(self, claude):
        made = [claude.messages.batches.create(requests=requests("a")).id for _ in range(3)]
        assert [each.id for each in claude.messages.batches.list(limit=2)] == made[::-1]
        claude.messages.batches.delete(made[1])
        assert [each.id for each in claude.messages.batches.list()] == [made[2], made[0]]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/conversations/conv_9", "/v1/chat/completions/chatcmpl-9"])
def test_an_unknown_id_is_accepted_only_where_it_may_be(method, path):
    asked = parse_request(HttpRequest(method, path, "", {}, b"{}"))
    statuses = [
        objects.StoredObjects(lambda *_: HttpResponse(500), accepts_unknown=accepts)
        .answer(asked, Response("Hi"))
        .status
        for accepts in (True, False)
    ]
    assert statuses == [200, 404]


def test_moderations_find_nothing_in_each_input(client):
    assert [each.flagged for each in client.moderations.create(input=["a", "b"]).results] == [False, False]
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    (result,) = client.moderations.create(input=parts).results
    assert result.category_applied_input_types.violence == ["text", "image"]


def test_a_compacted_conversation_is_one_item_that_can_be_sent_back(client):
    compacted = client.responses.compact(model="m", input="Hi")
    (item,) = compacted.output
    assert client.responses.create(model="m", input=[item.to_dict(), {"role": "user", "content": "Go on"}]).output_text


@pytest.mark.parametrize("path", ["/v1/files", "/v1/vector_stores", "/v1/fine_tuning/jobs", "/v1/threads/t/messages"])
def test_what_nothing_stands_in_for_is_not_found_and_says_so(client, path):
    with pytest.raises(openai.NotFoundError, match=f"offbook does not stand in for {path}"):
        client.get(path.removeprefix("/v1"), cast_to=httpx.Response)


@pytest.mark.parametrize("path", ["/", "/api/hello"])
def test_a_client_may_look_whether_a_server_is_there(server, path):
    assert httpx.head(server.url + path, trust_env=False).status_code == 200


def test_a_server_of_no_model_knows_every_name(client, claude):
    assert client.models.retrieve("gpt-5").id == claude.models.retrieve("gpt-5").id == "gpt-5"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/responses/resp_1"), ("POST", "/v1/conversations"), ("HEAD", "/"), ("GET", "/v1/models/gpt-5")],
)
def test_a_strict_replay_makes_nothing_up(method, path):
    with serving(responses=ANSWERS, strict=True) as server:
        answer = httpx.request(method, server.url + path, trust_env=False)
        assert answer.status_code == 422
        assert [miss.place for miss in server.misses] == [path]
