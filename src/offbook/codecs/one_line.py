"""JSON that every client takes for one line."""

_BREAKS = {"\u0085".encode(): b"\\u0085", "\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}
"""What clients of Gemini and Ollama take for the end of a line, though JSON allows it inside a text."""


def on_one_line(data: bytes) -> bytes:
    """The same JSON, with line breaks other than those of ASCII spelt out."""
    if data.isascii():
        return data
    for character, spelt in _BREAKS.items():
        data = data.replace(character, spelt)
    return data
