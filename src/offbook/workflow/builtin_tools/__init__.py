"""Tools that a workflow can have without any code: off unless it lists them, each within what it allows."""
