"""Comparing, editing and checking recordings."""
