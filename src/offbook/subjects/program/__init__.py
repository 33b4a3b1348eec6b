"""Programs in any language as subjects: their start, their connections, and their products."""
