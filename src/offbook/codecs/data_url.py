"""Images inside a request: `data:` URLs with base64 content."""

from msgspec import Struct


class DataUrl(Struct, frozen=True):
    """A media type and base64 content."""

    media_type: str
    data: str

    def __str__(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


def parse_data_url(url: str) -> DataUrl | None:
    """The URL's media type and content, or None where it is no base64 `data:` URL."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return DataUrl(head.removeprefix("data:").partition(";")[0], data)
