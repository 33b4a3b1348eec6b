"""Signs requests for AWS with botocore, which finds credentials as AWS's SDKs do: variables, files, roles."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from offbook.errors import InputError
from offbook.vendors import DEFAULT_REGION

SIGNED_SCHEME = "AWS4-HMAC-SHA256"
"""The `authorization` scheme of signed requests."""
_SCOPE = re.compile(r"Credential=[^/,\s]+/\d{8}/(?P<region>[^/,\s]+)/")
_HOST_REGION = re.compile(r"https?://[a-z-]+\.(?P<region>[a-z]{2,3}(-[a-z]+)+-\d+)\.")
OLD_SIGNATURE = frozenset(("authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"))
"""The lower-case headers that a new signature replaces."""


def sign_request(url: str, body: bytes, *, service: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that sign a POST of `body` to `url` with this process's AWS credentials.

    `headers` are the request's, with lower-case names. An existing signature's region must be that of the URL.

    Raises:
        InputError: botocore is not installed, there are no credentials, or the regions differ.
    """
    region = _region_of(url, headers.get("authorization", ""))
    kept = {name: value for name, value in headers.items() if name == "content-type" or name.startswith("x-amz-")}
    signed = {name: value for name, value in kept.items() if name not in OLD_SIGNATURE}
    try:
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an optional package
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    except ImportError:
        hint = "pip install botocore, or use a key of Bedrock: export AWS_BEARER_TOKEN_BEDROCK=…"
        raise InputError("requests to AWS are signed by the package botocore", source=service, hint=hint) from None
    request = AWSRequest("POST", url, headers=signed, data=body)
    SigV4Auth(_credentials(service), service, region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


def _credentials(service: str) -> Any:
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    try:
        found = _session().get_credentials()
        if found is not None:
            return found.get_frozen_credentials()
        reason = "no credentials of AWS were found"
    except BotoCoreError as error:
        reason = str(error)
    hint = "export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…, AWS_PROFILE=…, or AWS_BEARER_TOKEN_BEDROCK=…"
    raise InputError(reason, source=service, hint=hint)


def _session() -> Any:
    """Return the session, which remembers credentials and renews them when they expire."""
    return _session_with(frozenset(item for item in os.environ.items() if item[0].startswith("AWS_")))


@lru_cache(maxsize=1)
def _session_with(variables: frozenset[tuple[str, str]]) -> Any:
    """Return a session that reads only `variables`. It does not notice later changes."""
    from botocore.session import get_session  # noqa: PLC0415

    return get_session()


def _region_of(url: str, authorization: str) -> str:
    in_url, in_scope = _HOST_REGION.match(url), _SCOPE.search(authorization)
    if in_url is None:
        return in_scope["region"] if in_scope is not None else DEFAULT_REGION
    if in_scope is not None and in_scope["region"] != in_url["region"]:
        reason = f"the request is signed for the region {in_scope['region']}, and the server is in {in_url['region']}"
        hint = f"export AWS_REGION={in_scope['region']}, or name the server with --upstream bedrock=…"
        raise InputError(reason, source="region", hint=hint)
    return in_url["region"]
