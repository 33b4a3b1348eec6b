"""The error for a sink whose optional package is not installed."""

from offbook.errors import InputError


def missing_package(package: str, *, needed_by: str) -> InputError:
    """The error for a sink whose package is not installed."""
    return InputError(f"{package} is not installed", source=needed_by, hint="install offbook[observability]")
