"""Removing secrets from recordings."""
