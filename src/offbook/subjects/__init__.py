"""Subjects of explorations (functions, programs, workflows, scenarios), executors of cases, kept regressions."""
