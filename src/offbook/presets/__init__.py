"""Presets of known programs and frameworks: one file of data each, next to this one."""
