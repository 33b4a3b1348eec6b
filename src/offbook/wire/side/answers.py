"""Answers for calls that no recording has, and that no model needs to be asked for."""

from __future__ import annotations

import orjson

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.answer import Answer, whole
from offbook.wire.asked import Asked
from offbook.wire.encoding import error_answer
from offbook.wire.side.embeddings import embeddings_answer
from offbook.wire.side.model_lists import models_answer
from offbook.wire.side.token_counts import token_count_answer


def side_answer(asked: Asked, models: list[str]) -> Answer:
    """An embedding, a list of models or a count of tokens, made up but the same each time; else that there is none."""
    try:
        made = _made(asked, models)
    except RequestError as error:
        return error_answer(asked.route.vendor_codec, 400, str(error))
    if made is None:
        told = asked.problem or f"the recording has no answer for {asked.place}, and none can be made up"
        return error_answer(asked.route.vendor_codec, 400 if asked.problem else 404, told)
    return whole(200, orjson.dumps(made))


def _made(asked: Asked, models: list[str]) -> JsonObject | None:
    vendor, path = asked.route.vendor, asked.place.partition("?")[0]
    body = asked.body if isinstance(asked.body, dict) else {}
    match asked.route.operation:
        case "embed":
            return embeddings_answer(vendor, path, body)
        case "models":
            return models_answer(vendor, path, models, body=body)
        case "count_tokens":
            return token_count_answer(vendor, body)
        case _:
            return None
