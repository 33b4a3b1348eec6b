"""Recordings from the files of other tools, and as HAR."""
