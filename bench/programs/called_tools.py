"""The tools of `tool_caller.py`, and the same functions once more, which are no tools."""

RESULT: dict[str, object] = {"id": 17, "status": "sent"}


def plain(to: str, subject: str) -> dict[str, object]:
    return RESULT


async def plain_later(to: str, subject: str) -> dict[str, object]:
    return RESULT


def mail(to: str, subject: str) -> dict[str, object]:
    return RESULT


async def mail_later(to: str, subject: str) -> dict[str, object]:
    return RESULT
