"""One run: who answers its calls, which of them fail, and what happened."""
