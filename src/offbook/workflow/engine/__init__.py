"""Runs workflows: the engine, its levels and its steps."""
