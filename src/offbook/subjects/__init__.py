"""Subjects of explorations that need a session or a config, what runs many of their cases at once, and what is kept."""
