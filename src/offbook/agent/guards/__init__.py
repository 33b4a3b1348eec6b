"""Guards that check every turn of a model before its tool calls run."""
