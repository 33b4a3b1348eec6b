"""Measures offbook beside its peers and beside a floor: `python -m bench`."""
