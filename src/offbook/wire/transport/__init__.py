"""Transports that answer HTTP clients of the same process."""
