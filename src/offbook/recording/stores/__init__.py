"""Where recordings are kept."""
