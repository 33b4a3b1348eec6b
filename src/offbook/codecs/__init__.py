"""Codecs: one for each model protocol, from bytes to values and back."""
