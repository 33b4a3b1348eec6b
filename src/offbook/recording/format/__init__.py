"""The recording format: documents, exchanges, keys, and the JSON file."""
