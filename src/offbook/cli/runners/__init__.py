"""Runners."""

import logging


class _MaskedLog(logging.Formatter):
    """Formats unhandled log records of libraries and offbook without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        from offbook.cli.output.console import shown

        return shown(super().format(record))


if logging.lastResort is not None:  # it prints to stderr, like the commands, and so it is masked like them
    logging.lastResort.setFormatter(_MaskedLog())
