"""Recordings from what other tools have written, and recordings as HAR."""
