"""Answers to requests that are not recorded and that need no model: embeddings, lists of models, token counts."""

from __future__ import annotations

import orjson

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.vendors import VENDORS
from offbook.wire.request import ParsedRequest
from offbook.wire.response import HttpResponse, error_response, whole_response
from offbook.wire.synthetic.embeddings import embeddings_answer
from offbook.wire.synthetic.models import models_answer, token_count_answer


def synthetic_response(parsed: ParsedRequest, models: list[str]) -> HttpResponse:
    """Answer a request that is not recorded: an embedding, a list of models or a token count, always the same; or 404.

    `models` are the models that the recording names.
    """
    try:
        body = _synthetic_body(parsed, models)
    except RequestError as error:
        return error_response(parsed.route.any_codec, 400, str(error))
    if body is None:
        message = parsed.problem or f"the recording has no answer for {parsed.place}, and there is no synthetic one"
        return error_response(parsed.route.any_codec, 400 if parsed.problem else 404, message)
    return whole_response(200, orjson.dumps(body))


def _synthetic_body(parsed: ParsedRequest, models: list[str]) -> JsonObject | None:
    vendor = VENDORS[parsed.route.vendor].like or parsed.route.vendor
    path = parsed.place.partition("?")[0]
    body = parsed.body if isinstance(parsed.body, dict) else {}
    match parsed.route.operation:
        case "embed":
            return embeddings_answer(vendor, path, body)
        case "models":
            return models_answer(vendor, path, models, body=body)
        case "count_tokens":
            return token_count_answer(vendor, body)
        case _:
            return None
