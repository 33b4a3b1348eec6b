"""Protocols, each as a codec: bytes to values and back."""
