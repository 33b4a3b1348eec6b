"""Synthetic answers for endpoints other than model calls: embeddings, lists of models, token counts."""
