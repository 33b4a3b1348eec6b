"""The workflow file: reading, including, checking and walking it."""
