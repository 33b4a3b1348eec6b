"""Stands in for the models and tools an LLM agent talks to."""

__version__ = "0.1.0"
