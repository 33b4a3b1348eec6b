"""The version of offbook, which the build reads from this file."""

__version__ = "0.1.0"
