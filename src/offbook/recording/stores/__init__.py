"""The stores that hold recordings: JSON files and SQLite databases."""
