"""Agents with one planted defect each, a sound twin beside each, and what their tools really did."""
