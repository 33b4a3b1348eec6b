"""Answers for the endpoints beside the model calls, made up where a recording has none."""

from offbook.wire.side.embeddings import embeddings_answer
from offbook.wire.side.model_lists import models_answer
from offbook.wire.side.token_counts import token_count_answer

__all__ = ["embeddings_answer", "models_answer", "token_count_answer"]
