"""The numbers that users give: checked, with errors that name them."""

from offbook.errors import InputError


def checked_budget(budget_tokens: int) -> int:
    """The budget as it is, if it is a whole number above zero."""
    if type(budget_tokens) is not int or budget_tokens < 1:
        raise InputError(f"expected a whole number of tokens above zero, got {budget_tokens!r}", source="budget_tokens")
    return budget_tokens


def checked_keep_recent(keep_recent: int) -> int:
    """The number as it is, if it is one or more: the model must see what it has just been told."""
    if type(keep_recent) is not int or keep_recent < 1:
        raise InputError(f"expected a whole number of one or more, got {keep_recent!r}", source="keep_recent")
    return keep_recent


def checked_share(share: float, *, source: str) -> float:
    """The share of the budget as it is, if it is above zero and at most one."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"expected a share of the budget, above 0 and up to 1, got {share!r}", source=source)
    return share
