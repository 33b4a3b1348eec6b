"""Objects that clients create at a vendor and request later: responses, chat completions, conversations, batches."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import count
from typing import Annotated, Any, TypeAlias
from urllib.parse import parse_qs, unquote

import orjson
from msgspec import Meta, Struct

from offbook.codecs import openai_chat, openai_responses
from offbook.codecs.framing import SseDecoder
from offbook.errors import OffbookError, RequestError
from offbook.messages import JsonObject, Request, Response, deltas_of
from offbook.wire.request import ParsedRequest, read_body
from offbook.wire.response import HttpResponse, error_response, whole_response
from offbook.wire.synthetic.answers import DAY_AFTER, LONG_AGO, token_count_answer

MAX_OBJECTS = 1_000
"""The maximum of a session's objects, of each object's items, and of unstored answers."""
DEFAULT_LIMIT = 20
"""The default number of objects on a page."""

Asker: TypeAlias = Callable[[str, JsonObject], HttpResponse]
"""Answers a model call with this path and body, as the session would if a client made it."""


class Asked(Struct, frozen=True):
    """A request for an object: the ids in its path, its query and its body.

    `unknown` is the response of an object that this session does not know.
    """

    ids: tuple[str, ...]
    query: dict[str, list[str]]
    body: JsonObject
    unknown: Response

    def option(self, name: str) -> str:
        """Return a parameter of the query, or ""."""
        return self.query.get(name, [""])[0]

    def number(self, name: str) -> int:
        """Return a query parameter as a number, or 0."""
        text = self.option(name)
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


Answer: TypeAlias = JsonObject | HttpResponse | None
"""The body of an answer, a whole answer, or None for a deleted object."""


class StoredObjects:
    """Keeps what the calls of one session have created, in memory, and answers requests for it.

    With `accepts_unknown`, an id that the session does not know stands for an object with the default response: it may
    have been made before the session began. An object that was deleted is not found any more.
    """

    def __init__(self, ask: Asker, *, accepts_unknown: bool) -> None:
        self._ask, self._accepts_unknown = ask, accepts_unknown
        self._answered: deque[tuple[ParsedRequest, HttpResponse]] = deque(maxlen=MAX_OBJECTS)
        self._objects: dict[str, JsonObject] = {}
        self._deleted: dict[str, None] = {}
        self._parts: dict[str, list[JsonObject]] = {}
        self._numbers = count(1)

    def note(self, parsed: ParsedRequest, answer: HttpResponse) -> None:
        """Note the answer to a model call, which may have created an object."""
        is_kept = _STORED_BY_DEFAULT.get(parsed.protocol)
        if is_kept is None or parsed.request is None or answer.status != 200:
            return
        if parsed.request.extra.get("store", is_kept) is True:
            self._answered.append((parsed, answer))

    def answer(self, parsed: ParsedRequest, unknown: Response) -> HttpResponse | None:
        """Answer a request for an object, or return None for other requests."""
        path, _, query = parsed.place.partition("?")
        for method, pattern, handle in _ROUTES:
            found = pattern.fullmatch(path) if method == parsed.method else None
            if found is not None:
                self._take_in()
                body = parsed.body if isinstance(parsed.body, dict) else {}
                asked = Asked(tuple(map(unquote, found.groups())), parse_qs(query), body, unknown)
                try:
                    return _response(parsed, handle(self, asked), asked.ids)
                except RequestError as error:
                    return error_response(parsed.route.any_codec, 400, str(error))
        return None

    def response(self, asked: Asked) -> Answer:
        """Return a response, or its events if they are asked for."""
        stored = self._object(asked, openai_responses.encode_response(asked.unknown))
        if stored is None or asked.option("stream") != "true":
            return stored
        said = openai_responses.decode_response(orjson.dumps(stored))
        events = openai_responses.encode_stream(said, deltas_of(said), id=str(stored["id"]).removeprefix("resp_"))
        first = asked.number("starting_after") + 1 if asked.option("starting_after") else 0
        body = b"".join(list(events)[first:])
        return whole_response(200, body, content_type=openai_responses.CODEC.stream_type)

    def completion(self, asked: Asked) -> Answer:
        return self._object(asked, openai_chat.encode_response(asked.unknown))

    def update_completion(self, asked: Asked) -> Answer:
        return self._update(asked, openai_chat.encode_response(asked.unknown))

    def completions(self, asked: Asked) -> Answer:
        """Return the chat completions that were made with `store`, by model and metadata."""
        wanted = {name[9:-1]: values[0] for name, values in asked.query.items() if name.startswith("metadata[")}
        model = asked.option("model")
        found = [
            each
            for each in self._objects.values()
            if each.get("object") == "chat.completion"
            and model in ("", each["model"])
            and wanted.items() <= (each.get("metadata") or {}).items()
        ]
        return _page(asked, found, order="asc")

    def messages(self, asked: Asked) -> Answer:
        """Return the messages that a chat completion was asked with."""
        return None if not self._is_known(asked) else _page(asked, self._parts.get(asked.ids[0], []), order="asc")

    def items(self, asked: Asked) -> Answer:
        """Return the items of a conversation, or those that a response was asked with; the latest first."""
        return None if not self._is_known(asked) else _page(asked, self._parts.get(asked.ids[0], []), order="desc")

    def item(self, asked: Asked) -> Answer:
        """Return an item of a conversation."""
        conversation, name = asked.ids
        known = self._parts.get(conversation)
        if known is None and self._is_known(asked):
            return _full_item({"role": "assistant", "content": asked.unknown.content}, name)
        return next((item for item in known or () if item["id"] == name), None)

    def add_items(self, asked: Asked) -> Answer:
        """Add items to a conversation."""
        if not self._is_known(asked):
            return None
        added = self._full_items(read_body(asked.body, _Items).items)
        self._add_parts(asked.ids[0], added)
        return _list(added, has_more=False)

    def delete_item(self, asked: Asked) -> Answer:
        """Delete an item, and return its conversation."""
        conversation, name = asked.ids
        known = self._parts.get(conversation)
        if known is not None:
            left = [item for item in known if item["id"] != name]
            if len(left) == len(known):
                return None
            self._parts[conversation] = left
        return self.conversation(asked)

    def create_conversation(self, asked: Asked) -> Answer:
        created = read_body(asked.body, _Conversation)
        conversation = _conversation(f"conv_{next(self._numbers)}") | {"metadata": created.metadata or {}}
        self._parts[conversation["id"]] = self._full_items(created.items or ())
        return self._keep(conversation)

    def conversation(self, asked: Asked) -> Answer:
        return self._object(asked, _conversation(asked.ids[0]))

    def update_conversation(self, asked: Asked) -> Answer:
        return self._update(asked, _conversation(asked.ids[0]))

    def compact(self, asked: Asked) -> Answer:
        """Return a compacted conversation, in an item that only the vendor can read."""
        digest = sha256(orjson.dumps(asked.body, option=orjson.OPT_SORT_KEYS)).hexdigest()
        item = {
            "id": f"cmp_{digest[:24]}",
            "type": "compaction",
            "encrypted_content": b64encode(digest.encode()).decode(),
        }
        usage = openai_responses.encode_response(Response())["usage"]
        tokens = token_count_answer("openai", asked.body)["input_tokens"]
        counted = usage | {"input_tokens": tokens, "total_tokens": tokens}
        compacted = {"id": f"resp_{digest[:24]}", "object": "response.compaction", "created_at": 0, "usage": counted}
        return compacted | {"output": [item]}

    def moderate(self, asked: Asked) -> Answer:
        """Return that moderation found nothing."""
        body = read_body(asked.body, _Moderated)
        is_one = isinstance(body.input, str) or not all(isinstance(each, str) for each in body.input)
        has_image = not isinstance(body.input, str) and any(
            isinstance(each, dict) and each.get("type") == "image_url" for each in body.input
        )
        result = _moderation(has_image=has_image)
        return {
            "id": f"modr-{next(self._numbers)}",
            "model": body.model or "omni-moderation-latest",
            "results": [result] * (1 if is_one else len(body.input)),
        }

    def create_batch(self, asked: Asked) -> Answer:
        """Ask for all messages of a batch at once. The batch has ended at the next request for it."""
        requests = read_body(asked.body, _Batch).requests
        batch = _batch(f"msgbatch_{next(self._numbers)}", succeeded=0, errored=0)
        self._parts[batch["id"]] = results = [self._batch_result(each) for each in requests]
        failed = sum(each["result"]["type"] == "errored" for each in results)
        self._keep(_batch(batch["id"], succeeded=len(results) - failed, errored=failed))
        return _running(batch, "in_progress", len(results))

    def batch(self, asked: Asked) -> Answer:
        return self._object(asked, _batch(asked.ids[0], succeeded=1, errored=0))

    def batches(self, asked: Asked) -> Answer:
        """Return a page of the batches, the latest first."""
        batches = [each for each in self._objects.values() if each.get("type") == "message_batch"]
        ids = [each["id"] for each in reversed(batches)]
        after, before = asked.option("after_id"), asked.option("before_id")
        first = ids.index(after) + 1 if after in ids else 0
        ids = ids[first : ids.index(before) if before in ids else None]
        page = ids[: asked.number("limit") or DEFAULT_LIMIT]
        data = [self._objects[each] for each in page]
        ends = {"first_id": page[0], "last_id": page[-1]} if page else {"first_id": None, "last_id": None}
        return {"data": data, "has_more": len(ids) > len(page), **ends}

    def cancel_batch(self, asked: Asked) -> Answer:
        """Cancel a batch, and all of its messages."""
        batch = self._object(asked, _batch(asked.ids[0], succeeded=1, errored=0))
        if batch is None:
            return None
        results = self._parts.get(batch["id"], [])
        self._parts[batch["id"]] = [each | {"result": {"type": "canceled"}} for each in results]
        counts = dict.fromkeys(batch["request_counts"], 0)
        canceled = batch | {"cancel_initiated_at": LONG_AGO}
        self._keep(canceled | {"request_counts": counts | {"canceled": len(results)}})
        return _running(canceled | {"request_counts": counts}, "canceling", len(results))

    def batch_results(self, asked: Asked) -> Answer:
        """Return the messages of a batch as lines of JSON."""
        if not self._is_known(asked):
            return None
        lines = b"".join(orjson.dumps(each) + b"\n" for each in self._parts.get(asked.ids[0], ()))
        return whole_response(200, lines, content_type="application/x-jsonl")

    def delete_batch(self, asked: Asked) -> Answer:
        return self._delete(asked, {"id": asked.ids[0], "type": "message_batch_deleted"})

    def delete_response(self, asked: Asked) -> Answer:
        return self._delete(asked, {"id": asked.ids[0], "object": "response", "deleted": True})

    def delete_completion(self, asked: Asked) -> Answer:
        return self._delete(asked, {"id": asked.ids[0], "object": "chat.completion.deleted", "deleted": True})

    def delete_conversation(self, asked: Asked) -> Answer:
        return self._delete(asked, {"id": asked.ids[0], "object": "conversation.deleted", "deleted": True})

    def delete_model(self, asked: Asked) -> Answer:
        return self._delete(asked, {"id": asked.ids[0], "object": "model", "deleted": True})

    def _is_known(self, asked: Asked) -> bool:
        name = asked.ids[0]
        return name in self._objects or (self._accepts_unknown and name not in self._deleted)

    def _object(self, asked: Asked, unknown: JsonObject) -> JsonObject | None:
        """Return the requested object, or `unknown` with its id, or None if it is not found."""
        name = asked.ids[0]
        return self._objects.get(name, unknown | {"id": name}) if self._is_known(asked) else None

    def _update(self, asked: Asked, unknown: JsonObject) -> JsonObject | None:
        found = self._object(asked, unknown)
        metadata = read_body(asked.body, _Metadata).metadata
        return None if found is None else self._keep(found | {"metadata": metadata or {}})

    def _delete(self, asked: Asked, answer: JsonObject) -> JsonObject | None:
        name = asked.ids[0]
        if not self._is_known(asked):
            return None
        self._forget(name)
        self._deleted[name] = None
        if len(self._deleted) > MAX_OBJECTS:
            del self._deleted[next(iter(self._deleted))]
        return answer

    def _keep(self, stored: JsonObject) -> JsonObject:
        self._objects[stored["id"]] = stored
        self._deleted.pop(stored["id"], None)  # equal requests get answers of equal ids
        if len(self._objects) > MAX_OBJECTS:
            self._forget(next(iter(self._objects)))
        return stored

    def _forget(self, name: str) -> None:
        self._objects.pop(name, None)
        self._parts.pop(name, None)

    def _take_in(self) -> None:
        """Store the objects that model calls have created since the last time."""
        while self._answered:
            parsed, answer = self._answered.popleft()
            try:
                said = _streamed_object(parsed, answer) if answer.is_streamed else orjson.loads(answer.content)
            except (OffbookError, ValueError, LookupError):  # recorded bytes may be anything
                continue
            if isinstance(said, dict) and isinstance(said.get("id"), str) and parsed.request is not None:
                self._keep_answer(said, parsed.request, is_chat=parsed.protocol == "openai_chat")

    def _keep_answer(self, said: JsonObject, request: Request, *, is_chat: bool) -> None:
        self._keep(said | {"metadata": request.extra.get("metadata") or {}})
        if is_chat:
            self._parts[said["id"]] = [
                _stored_message(message, f"{said['id']}-{place}") for place, message in enumerate(request.messages)
            ]
            return
        given = self._full_items(openai_responses.encode_conversation(request.messages)[1])
        self._parts[said["id"]] = given
        conversation = request.extra.get("conversation")
        name = conversation.get("id") if isinstance(conversation, dict) else conversation
        if isinstance(name, str) and name not in self._deleted:
            self._add_parts(name, [*given, *said.get("output", ())])

    def _add_parts(self, conversation: str, items: Iterable[JsonObject]) -> None:
        self._keep(self._objects.get(conversation, _conversation(conversation)))
        parts = self._parts.setdefault(conversation, [])
        parts.extend(items)
        del parts[:-MAX_OBJECTS]

    def _full_items(self, items: Iterable[JsonObject]) -> list[JsonObject]:
        return [
            _full_item(item, str(item.get("id") or f"{_item_prefix(item)}_{next(self._numbers)}")) for item in items
        ]

    def _batch_result(self, request: _BatchRequest) -> JsonObject:
        answer = self._ask("/v1/messages", request.params | {"stream": False})
        body = orjson.loads(answer.content)
        is_message = answer.status == 200
        result = {"type": "succeeded", "message": body} if is_message else {"type": "errored", "error": body}
        return {"custom_id": request.custom_id, "result": result}


class _Metadata(Struct):
    metadata: dict[str, Any] | None = None


class _Conversation(_Metadata):
    items: list[JsonObject] | None = None


class _Items(Struct):
    items: Annotated[list[JsonObject], Meta(min_length=1)]


class _Moderated(Struct):
    input: str | list[str | JsonObject]
    model: str | None = None


class _BatchRequest(Struct):
    custom_id: str
    params: JsonObject


class _Batch(Struct):
    requests: Annotated[list[_BatchRequest], Meta(min_length=1)]


_STORED_BY_DEFAULT = {"openai_responses": True, "openai_chat": False}
_CATEGORIES = (
    *("harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent"),
    *("self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors"),
    *("violence", "violence/graphic"),
)
_SEEN_IN_IMAGES = frozenset(
    ("self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "violence", "violence/graphic")
)
_ITEM_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def _response(parsed: ParsedRequest, answer: Answer, ids: Sequence[str]) -> HttpResponse:
    if answer is None:
        return error_response(parsed.route.any_codec, 404, f"{' of '.join(reversed(ids))} does not exist")
    return answer if isinstance(answer, HttpResponse) else whole_response(200, orjson.dumps(answer))


def _streamed_object(parsed: ParsedRequest, answer: HttpResponse) -> JsonObject:
    """Return the whole object of a streamed answer."""
    decoder = SseDecoder()
    events = [event.data for event in (*decoder.feed(answer.content), *decoder.close())]
    if parsed.protocol == "openai_responses":
        end: JsonObject = orjson.loads(events[-1])["response"]
        return end
    joined = openai_chat.OpenAIChatStreamDecoder()
    for _ in joined.feed(answer.content):
        pass
    said = joined.close()[1]
    return openai_chat.encode_response(said) | {"id": orjson.loads(events[0])["id"]}


def _list(data: list[JsonObject], *, has_more: bool) -> JsonObject:
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
    return {"object": "list", "data": data, "has_more": has_more, **ends}


def _page(asked: Asked, found: Sequence[JsonObject], *, order: str) -> JsonObject:
    """Return the page of OpenAI's that starts after the object that the query names."""
    ordered = list(found) if (asked.option("order") or order) == "asc" else list(reversed(found))
    places = [place for place, each in enumerate(ordered) if each["id"] == asked.option("after")]
    rest = ordered[places[0] + 1 :] if places else ordered
    page = rest[: asked.number("limit") or DEFAULT_LIMIT]
    return _list(page, has_more=len(rest) > len(page))


def _item_prefix(item: JsonObject) -> str:
    return _ITEM_PREFIXES.get(item.get("type", "message"), "item")


def _full_item(item: JsonObject, id: str) -> JsonObject:
    """Return an item as the API returns it: with its id and status, and the text of a message as a part."""
    if item.get("type", "message") != "message":
        return {"id": id, "status": "completed"} | item
    content = item.get("content")
    if isinstance(content, str):
        is_said = item.get("role") == "assistant"
        content = [openai_responses.text_part(content) if is_said else {"type": "input_text", "text": content}]
    return {"id": id, "type": "message", "status": "completed"} | item | {"content": content}


def _stored_message(message: JsonObject, id: str) -> JsonObject:
    content = message.get("content")
    parts = content if isinstance(content, list) else None
    return {"refusal": None} | message | {"id": id, "content": None if parts else content, "content_parts": parts}


def _conversation(id: str) -> JsonObject:
    return {"id": id, "object": "conversation", "created_at": 0, "metadata": {}}


def _moderation(*, has_image: bool) -> JsonObject:
    seen = {name: ["text", "image"] if has_image and name in _SEEN_IN_IMAGES else ["text"] for name in _CATEGORIES}
    return {
        "flagged": False,
        "categories": dict.fromkeys(_CATEGORIES, False),
        "category_scores": dict.fromkeys(_CATEGORIES, 0.0),
        "category_applied_input_types": seen,
    }


def _batch(id: str, *, succeeded: int, errored: int) -> JsonObject:
    """Return a batch that has ended. Its results have a relative address, which stays in the session."""
    counts = {"processing": 0, "succeeded": succeeded, "errored": errored, "canceled": 0, "expired": 0}
    return {
        "id": id,
        "type": "message_batch",
        "processing_status": "ended",
        "request_counts": counts,
        "created_at": LONG_AGO,
        "ended_at": LONG_AGO,
        "expires_at": DAY_AFTER,
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": f"/v1/messages/batches/{id}/results",
    }


def _running(batch: JsonObject, status: str, processing: int) -> JsonObject:
    """Return a batch that has not ended yet."""
    counts = batch["request_counts"] | {"processing": processing}
    not_yet = {"ended_at": None, "results_url": None}
    return batch | not_yet | {"processing_status": status, "request_counts": counts}


Handler: TypeAlias = Callable[[StoredObjects, Asked], Answer]


def _route(method: str, path: str, handle: Handler) -> tuple[str, re.Pattern[str], Handler]:
    return method, re.compile(".*" + path.replace("{}", "([^/]+)")), handle


_ROUTES = (
    _route("POST", "/responses/compact", StoredObjects.compact),
    _route("GET", "/responses/{}", StoredObjects.response),
    _route("DELETE", "/responses/{}", StoredObjects.delete_response),
    _route("POST", "/responses/{}/cancel", StoredObjects.response),  # each has ended and does not change
    _route("GET", "/responses/{}/input_items", StoredObjects.items),
    _route("GET", "/chat/completions", StoredObjects.completions),
    _route("GET", "/chat/completions/{}", StoredObjects.completion),
    _route("POST", "/chat/completions/{}", StoredObjects.update_completion),
    _route("DELETE", "/chat/completions/{}", StoredObjects.delete_completion),
    _route("GET", "/chat/completions/{}/messages", StoredObjects.messages),
    _route("POST", "/conversations", StoredObjects.create_conversation),
    _route("GET", "/conversations/{}", StoredObjects.conversation),
    _route("POST", "/conversations/{}", StoredObjects.update_conversation),
    _route("DELETE", "/conversations/{}", StoredObjects.delete_conversation),
    _route("GET", "/conversations/{}/items", StoredObjects.items),
    _route("POST", "/conversations/{}/items", StoredObjects.add_items),
    _route("GET", "/conversations/{}/items/{}", StoredObjects.item),
    _route("DELETE", "/conversations/{}/items/{}", StoredObjects.delete_item),
    _route("DELETE", "/models/{}", StoredObjects.delete_model),
    _route("POST", "/moderations", StoredObjects.moderate),
    _route("POST", "/messages/batches", StoredObjects.create_batch),
    _route("GET", "/messages/batches", StoredObjects.batches),
    _route("GET", "/messages/batches/{}", StoredObjects.batch),
    _route("DELETE", "/messages/batches/{}", StoredObjects.delete_batch),
    _route("POST", "/messages/batches/{}/cancel", StoredObjects.cancel_batch),
    _route("GET", "/messages/batches/{}/results", StoredObjects.batch_results),
)
