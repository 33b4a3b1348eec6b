"""Warnings of recordings and replays, through the standard library's logging."""

from __future__ import annotations


def log_warning(logger: str, message: str, *values: object) -> None:
    """Log a warning. Logging is imported only now: most recordings have nothing to warn of."""
    import logging  # noqa: PLC0415

    logging.getLogger(logger).warning(message, *values)
