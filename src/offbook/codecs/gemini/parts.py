"""Gemini: the parts of a message's content."""

from msgspec import Struct

from offbook.codecs.data_url import DataUrl, parse_data_url
from offbook.codecs.gemini.names import read_fields
from offbook.codecs.parsing import without_none
from offbook.messages import Content, JsonObject

FILE_SCHEMES = ("http://", "https://", "gs://")


class _InlineData(Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _FileData(Struct, rename="camel"):
    file_uri: str = ""
    mime_type: str | None = None


def encode_parts(content: Content) -> list[JsonObject]:
    """A message's content as parts; what is neither text nor an image goes as it is."""
    if isinstance(content, str):
        return [{"text": content}]
    return [_encode_part(part) for part in content or ()]


def _encode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return _encode_image(url, image.get("format")) or part
        case _:
            return part


def _encode_image(url: str, media_type: str | None) -> JsonObject | None:
    if inline := parse_data_url(url):
        return {"inlineData": {"mimeType": inline.media_type, "data": inline.data}}
    if url.startswith(FILE_SCHEMES):
        return {"fileData": without_none({"mimeType": media_type, "fileUri": url})}
    return None


def decode_parts(parts: list[JsonObject]) -> Content:
    """Parts, their names in camel case, as a message's content: text alone is a string, nothing is None.

    Raises:
        RequestError: a part has the wrong shape.
    """
    content = [_decode_part(part) for part in parts]
    match content:
        case []:
            return None
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return content


def _decode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"inlineData": inline}:
            return _decode_inline(read_fields(inline, _InlineData)) or part
        case {"fileData": file}:
            return _decode_file(read_fields(file, _FileData)) or part
        case _:
            return part


def _decode_inline(inline: _InlineData) -> JsonObject | None:
    if not inline.mime_type.startswith("image/"):
        return None
    data = inline.data.replace("-", "+").replace("_", "/")  # the vendor's SDK writes base64 for URLs
    return {"type": "image_url", "image_url": {"url": str(DataUrl(inline.mime_type, data))}}


def _decode_file(file: _FileData) -> JsonObject | None:
    if file.mime_type is not None and not file.mime_type.startswith("image/"):
        return None
    return {"type": "image_url", "image_url": without_none({"url": file.file_uri, "format": file.mime_type})}
