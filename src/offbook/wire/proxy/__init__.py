"""The recording proxy: forwards calls to the real APIs and records their answers."""
