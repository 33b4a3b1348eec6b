"""Small agents with one defect each, and a sound twin beside it."""
