"""Anthropic messages: the content of a message, as text or blocks."""

import re

from offbook.messages import Content, JsonObject

_DATA_URL_HEAD = re.compile(r"data:([^;,]+);base64")


def encode_content(content: Content) -> str | list[JsonObject]:
    """Content as the API takes it. Parts other than images are the same in both shapes, or pass untouched."""
    if isinstance(content, list):
        return [_encode_part(part) for part in content]
    return "" if content is None else content


def decode_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    """Content in the OpenAI chat shape. A single block that is nothing but text becomes that text."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and is_plain_text(content[0]):
        return str(content[0]["text"])
    return [_decode_block(block) for block in content]


def blocks_of(content: str | list[JsonObject]) -> list[JsonObject]:
    """Content as blocks; none for empty text, which the API refuses as a block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def is_plain_text(block: JsonObject) -> bool:
    """Whether the block is text and carries nothing else, such as cache control."""
    return block.keys() == {"type", "text"} and block["type"] == "text" and isinstance(block["text"], str)


def _encode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}, **rest} if source := _image_source(url):
            return {"type": "image", "source": source, **rest}
    return part


def _decode_block(block: JsonObject) -> JsonObject:
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}, **rest}:
            return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}, **rest}
        case {"type": "image", "source": {"type": "url", "url": url}, **rest}:
            return {"type": "image_url", "image_url": {"url": url}, **rest}
    return block


def _image_source(url: str) -> JsonObject | None:
    if url.startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    head, _, data = url.partition(",")
    if found := _DATA_URL_HEAD.fullmatch(head):
        return {"type": "base64", "media_type": found[1], "data": data}
    return None
