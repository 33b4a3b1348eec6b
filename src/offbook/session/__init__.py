"""One run: the sources of its answers, its faults, and its log."""
