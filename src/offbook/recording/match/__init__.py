"""Matching calls with recorded exchanges."""
