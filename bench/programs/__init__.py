"""Agents as programs, which look something up ten times and then answer, for timing explorations of programs."""
