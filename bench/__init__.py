"""Measures understudy beside its peers and beside a floor: `python -m bench`."""
