"""Redact."""
