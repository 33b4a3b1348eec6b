"""Builds the site of the documentation: `python -m docs_site.build`."""
