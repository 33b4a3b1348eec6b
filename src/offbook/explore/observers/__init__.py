"""Observers of a run: its calls and tools in this process, and over HTTP; tools that are inferred from the latter."""
