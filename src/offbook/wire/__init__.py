"""The wire: stand-ins for the vendors' HTTP APIs, for programs that are not to be changed."""
