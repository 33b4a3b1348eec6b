"""An upstream that checks signatures as AWS documents them (Signature Version 4), with code that is not botocore's."""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import quote

from tests.servers.loopback import Received

ACCESS_KEY, SECRET_KEY = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/"
    r"(?P<scope>(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request), "
    r"SignedHeaders=(?P<names>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def signed_region(call: Received) -> str:
    """The region that a POST was signed for by the holder of the key.

    Raises:
        AssertionError: the signature is wrong.
    """
    found = _AUTHORIZATION.fullmatch(call.headers["authorization"])
    assert found is not None
    assert found["key"] == ACCESS_KEY
    names = found["names"].split(";")
    assert {"host", "x-amz-date"} <= set(names)
    path, _, query = call.path.partition("?")
    headers = "".join(f"{name}:{' '.join(call.headers[name].split())}\n" for name in names)
    canonical = "\n".join(
        ["POST", quote(path, safe="/~"), query, headers, found["names"], hashlib.sha256(call.body).hexdigest()]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", call.headers["x-amz-date"], found["scope"], digest])
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (found["day"], found["region"], found["service"], "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    assert hmac.new(key, text.encode(), "sha256").hexdigest() == found["signature"]
    return found["region"]
