"""Questions about conversations that a model answers with a JSON object."""

from offbook.scenarios.asking.asker import Asker, Question
from offbook.scenarios.asking.data import as_data

__all__ = ["Asker", "Question", "as_data"]
