"""The commands of `offbook mcp`."""
