"""Recording and replaying exchanges."""
