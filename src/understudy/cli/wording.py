"""How commands put things."""


def counted(count: int, noun: str) -> str:
    """`1 exchange`, `2 exchanges`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
