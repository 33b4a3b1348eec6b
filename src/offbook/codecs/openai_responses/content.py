"""OpenAI responses: the content of a message or of a tool's result, as text or parts."""

from offbook.messages import Content, JsonObject


def encode_content(content: Content, *, text_type: str = "input_text") -> str | list[JsonObject]:
    """Content as the API takes it. `text_type` is what it calls a text: the model's own are `output_text`."""
    if isinstance(content, list):
        return [_encode_part(part, text_type) for part in content]
    return "" if content is None else content


def decode_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    """Content in the OpenAI chat shape. A single part that is nothing but text becomes that text."""
    if isinstance(content, str):
        return content
    parts = [_decode_part(part) for part in content]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


def _encode_part(part: JsonObject, text_type: str) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text), **rest}:
            return {"type": text_type, "text": text, **rest}
        case {"type": "image_url", "image_url": {"url": str(url)} as image, **rest}:
            detail = {name: value for name, value in image.items() if name != "url"}
            return {"type": "input_image", "image_url": url, **detail, **rest}
        case {"type": "file", "file": dict(file), **rest}:
            return {"type": "input_file", **file, **rest}
    return part


def _decode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "input_text" | "output_text", "text": str(text), **rest}:
            return {"type": "text", "text": text, **_filled(rest)}
        case {"type": "input_image", "image_url": str(url), **image}:
            return {"type": "image_url", "image_url": {"url": url, **_filled(image)}}
        case {"type": "input_file", **file}:
            return {"type": "file", "file": _filled(file)}
    return part


def _filled(fields: JsonObject) -> JsonObject:
    """The fields that say something: answers that are sent back carry empty lists, such as `annotations`."""
    return {name: value for name, value in fields.items() if value is not None and value != []}
