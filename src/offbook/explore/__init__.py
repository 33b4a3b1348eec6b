"""Replays a recorded run with each fault at each of its calls, and judges what the run makes of it."""
