"""The version of offbook."""

__version__ = "0.1.0"
