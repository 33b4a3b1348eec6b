"""Maintain."""
