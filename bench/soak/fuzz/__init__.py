"""Fuzzing: valid files and messages, changed at random, given to everything that reads what others wrote."""
