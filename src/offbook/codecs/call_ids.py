"""Ids for the tool calls of a conversation whose protocol may leave them out."""


class CallIds:
    """Numbers calls in order of appearance, and finds the call that a result answers."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def of_call(self, tool: str, *, given: str | None = None) -> str:
        """The id of the next call: the one that it was given, or `call_{n}`."""
        call_id = given or f"call_{self._count}"
        self._count += 1
        self._open.append((call_id, tool))
        return call_id

    def of_result(self, tool: str | None, *, given: str | None = None) -> str:
        """The id of the call that a result answers.

        It is the one that the result was given, else that of the first unanswered call of its tool,
        else of the first unanswered call; a result that answers no call has a number of its own.
        """
        answered = self._answered(tool, given)
        if answered is not None:
            self._open.remove(answered)
            return answered[0]
        if given:
            return given
        self._count += 1
        return f"call_{self._count - 1}"

    def _answered(self, tool: str | None, given: str | None) -> tuple[str, str] | None:
        if given:
            return next((call for call in self._open if call[0] == given), None)
        first = self._open[0] if self._open else None
        return next((call for call in self._open if call[1] == tool), first)
