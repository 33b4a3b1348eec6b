"""Imports other tools' recordings, and exports recordings as HAR."""
