"""Providers: the interface, the HTTP provider, and one for each vendor."""
