"""Agents that are Python functions of a harness."""
