"""Programs in any language as subjects: how they start, what they reach over the wire, and what they leave behind."""
