"""The processes in which cases run: one each, or one for several that leave nothing behind."""
