"""How commands and reports put things."""


def counted(count: int, noun: str, nouns: str = "") -> str:
    """`1 exchange`, `2 exchanges`; `1 entry`, `2 entries` with `nouns`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def printable(text: str) -> str:
    """The text without what a terminal could take for a command; lines stay."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
