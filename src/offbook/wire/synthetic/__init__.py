"""Synthetic answers for endpoints beside the model calls: embeddings, lists of models, token counts."""

from offbook.wire.synthetic.embeddings import embeddings_answer
from offbook.wire.synthetic.models import models_answer
from offbook.wire.synthetic.token_counts import token_count_answer

__all__ = ["embeddings_answer", "models_answer", "token_count_answer"]
