"""Built-in tools of workflows: off unless a workflow declares them, and limited to what it allows."""
