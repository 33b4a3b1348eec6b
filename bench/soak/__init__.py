"""A long run of the gateway, to see that nothing is left behind and that everything repeats."""
