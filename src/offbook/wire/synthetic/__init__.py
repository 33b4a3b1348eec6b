"""Synthetic answers for endpoints beside the model calls: embeddings, lists of models, token counts."""
