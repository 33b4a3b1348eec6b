"""Chooses the synthetic answer for a call that no recording has."""

from __future__ import annotations

import orjson

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.wire.encode import error_response
from offbook.wire.request import ParsedRequest
from offbook.wire.response import HttpResponse, whole_response
from offbook.wire.synthetic.embeddings import embeddings_answer
from offbook.wire.synthetic.models import models_answer
from offbook.wire.synthetic.token_counts import token_count_answer


def synthetic_response(asked: ParsedRequest, models: list[str]) -> HttpResponse:
    """An embedding, a list of models or a count of tokens, made up but the same each time; else that there is none."""
    try:
        made = _synthetic_body(asked, models)
    except RequestError as error:
        return error_response(asked.route.vendor_codec, 400, str(error))
    if made is None:
        told = asked.problem or f"the recording has no answer for {asked.place}, and none can be made up"
        return error_response(asked.route.vendor_codec, 400 if asked.problem else 404, told)
    return whole_response(200, orjson.dumps(made))


def _synthetic_body(asked: ParsedRequest, models: list[str]) -> JsonObject | None:
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
