"""Explore: a recorded run, replayed with every fault at every place, and what breaks."""
