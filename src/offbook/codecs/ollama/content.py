"""Ollama: a message's content, which is one text and images beside it."""

from offbook.codecs.data_url import DataUrl, parse_data_url
from offbook.codecs.parsing import shorten
from offbook.errors import RequestError
from offbook.messages import Content, JsonObject

_MEDIA_TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""Media types by the beginning of the image as base64."""


def encode_content(content: Content) -> tuple[str, list[str]]:
    """The text and the images, as base64.

    Raises:
        RequestError: a part is neither text nor an image given as a `data:` URL.
    """
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[str] = []
    for part in content or ():
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case _:
                images.append(_encode_image(part))
    return "".join(texts), images


def _encode_image(part: JsonObject) -> str:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}} if image := parse_data_url(url):
            return image.data
    raise RequestError(
        f"Ollama cannot take {shorten(repr(part))}",
        source="messages",
        hint="give text, or images as data:image/png;base64,… URLs",
    )


def decode_content(text: str, images: list[str]) -> Content:
    """Text alone as a string, text with images as parts."""
    if not images:
        return text
    texts: list[JsonObject] = [{"type": "text", "text": text}] if text else []
    return [*texts, *({"type": "image_url", "image_url": {"url": str(_data_url(image))}} for image in images)]


def _data_url(image: str) -> DataUrl:
    found = (media_type for start, media_type in _MEDIA_TYPES.items() if image.startswith(start))
    return DataUrl(next(found, "application/octet-stream"), image)
