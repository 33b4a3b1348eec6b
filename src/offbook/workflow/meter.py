"""Adding up what a step's model calls take."""

from offbook.events import AttemptStarted, CallEnded, Event


class Meter:
    """Hears the events of a step's calls and counts calls, attempts, tokens and cost."""

    def __init__(self) -> None:
        self.calls = self.attempts = self.prompt_tokens = self.completion_tokens = 0
        self.cost_usd = 0.0

    def emit(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self.attempts += 1
            case CallEnded():
                self.calls += 1
                self.prompt_tokens += event.prompt_tokens
                self.completion_tokens += event.completion_tokens
                self.cost_usd += event.cost_usd
