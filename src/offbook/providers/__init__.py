"""Providers: the seam, the one that speaks HTTP, and the catalog."""
