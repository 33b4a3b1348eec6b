"""The fault of an answer that is JSON, but not of its protocol."""

from typing import NoReturn

import orjson

from offbook.faults.fault import Fault, StruckCall
from offbook.faults.malformed_response import MalformedResponse


class WrongShape(Fault, frozen=True, tag="wrong_shape"):
    """Sends `raw` through the real codec, whose complaint surfaces; it raises also what that codec could read.

    Raises:
        ValueError: `raw` is no JSON.
    """

    raw: str = '{"status": "ok"}'

    def __post_init__(self) -> None:
        try:
            orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"raw cannot be read as JSON: {error}; malformed_response takes any text") from None

    async def strike(self, call: StruckCall) -> NoReturn:
        await MalformedResponse(self.raw).strike(call)
