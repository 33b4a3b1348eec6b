"""Stored runs: the files that let an interrupted or failed run resume."""
