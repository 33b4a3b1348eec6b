"""Agents as programs, which look something up and then answer, for timing explorations of programs.

Their argument is how many turns they take at most.
"""
